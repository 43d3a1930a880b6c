"""The contract of halves, local and networked: what receivers count, and batches."""

from __future__ import annotations

import pytest

from aqueduct_core.aio.halves import Receiver, channel
from aqueduct_core.aio.outcomes import ReceiverClosed
from tests.core.aio.scene import KINDS, pair
from tests.support.event_loop import eventually, in_loop
from tests.support.rules import rule

kinds = pytest.mark.parametrize("kind", KINDS)

LARGE = bytes(2000)
"""Fits no datagram."""


@kinds
@in_loop
async def test_both_halves_count_the_same(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send_many([b"x"] * 10)
        await sender.finish()
        await eventually(lambda: receiver.outcome is not None)
        counts = receiver.counts
        assert (counts.reliable_sent, counts.reliable_received, counts.acked) == (10, 10, 10)
        assert (counts.unreliable_sent, counts.nacked, counts.late) == (0, 0, 0)
        before = receiver.statistics
        assert (before.received, before.taken, before.nacked) == (10, 0, 0)
        assert before.queued_bytes >= 10
        assert len([m async for m in receiver]) == 10
        after = receiver.statistics
        assert (after.taken, after.queued_bytes) == (10, 0)
        assert sender.outcome is None


@kinds
@in_loop
async def test_counts_of_unreliable_messages(kind: str) -> None:
    async with pair(kind, "unreliable") as (sender, receiver):
        for payload in (b"small", LARGE, b"small"):
            await sender.send(payload)
        await sender.finish()
        counts = receiver.counts
        assert (counts.reliable_sent, counts.reliable_received) == (1, 1)
        assert (counts.unreliable_sent, counts.acked, counts.nacked) == (2, 3, 0)


@kinds
@rule("AQ-SEND-3", "AQ-SEND-4")
@pytest.mark.parametrize("bulk", [False, True])
@in_loop
async def test_what_fits_no_datagram_is_numbered_apart(kind: str, bulk: bool) -> None:
    payloads = [b"a", LARGE, b"b", b"c", LARGE]
    async with pair(kind, "unreliable") as (sender, receiver):
        if bulk:
            await sender.send_many(payloads)
        else:
            assert [await sender.send(payload) for payload in payloads] == [0, 0, 1, 2, 1]
        got = [await receiver.receive() for _ in payloads]
        numbers = {(m.reliable, m.number): m.payload for m in got}
        assert numbers == {
            (False, 0): b"a",
            (True, 0): LARGE,
            (False, 1): b"b",
            (False, 2): b"c",
            (True, 1): LARGE,
        }
        await sender.finish()
        assert sender.statistics.reliable_acked == 2


@kinds
@in_loop
async def test_a_receiver_that_closed_itself_has_no_outcome_and_its_counts(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send_many([b"read", b"unread"])
        await receiver.receive()
        await eventually(lambda: receiver.statistics.received == 2)
        await receiver.close()
        await eventually(lambda: sender.outcome is not None)
        assert isinstance(sender.outcome, ReceiverClosed)
        assert (sender.outcome.unacked, sender.statistics.acked) == (0, 2)
        assert receiver.outcome is None
        assert receiver.counts.acked == 2
        with pytest.raises(ReceiverClosed):
            await sender.send_many([b"x"])
        await sender.finish()  # every message was acked: nothing is wrong


@kinds
@in_loop
async def test_batches_carry_halves_too(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        inner, inner_receiver = channel()
        await sender.send(b"plain")
        await sender.send(b"carrier", attach=inner_receiver)
        await sender.finish()
        halves: list[object] = []
        async for batch in receiver.batches():
            for index in list(batch.carried):
                halves += batch.attachments(index)
                assert batch.attachments(index) == ()
        (arrived,) = halves
        assert isinstance(arrived, Receiver)
        await inner.send(b"inside")
        assert (await arrived.receive()).payload == b"inside"
