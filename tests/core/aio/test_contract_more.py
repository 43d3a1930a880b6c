"""The contract suite, second part: counts, numbers, observers, limits, oneshots and replies."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aqueduct_core.aio.halves import Receiver, Sender, channel, oneshot
from aqueduct_core.aio.outcomes import Cancelled, Finished, Misuse, ReceiverClosed
from tests.core.aio.scene import KINDS, eventually, in_loop, pair
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
async def test_finish_and_cancel_exclude_each_other(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.cancel()
        await sender.cancel()
        with pytest.raises(Misuse, match="cancelled"):
            await sender.finish()
        await eventually(lambda: receiver.outcome is not None)
        for _ in range(2):
            with pytest.raises(Cancelled):
                await receiver.receive()
        assert receiver.counts.reliable_sent == 0


@kinds
@in_loop
async def test_a_finish_on_its_way_cannot_be_taken_back(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send(b"x")
        finishing = asyncio.ensure_future(sender.finish())
        await asyncio.sleep(0)
        if not finishing.done():
            with pytest.raises(Misuse, match="finished"):
                await sender.cancel()
        await finishing
        await sender.cancel()  # it has ended: nothing to give up
        assert [m.payload async for m in receiver] == [b"x"]
        for _ in range(2):
            with pytest.raises(Finished):
                await receiver.receive()


@kinds
@in_loop
async def test_observers_learn_each_outcome_once_and_the_end(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        settled: list[int] = []
        ends: list[str] = []

        def tell(reliable: bool, first: int, stop: int, acked: bool) -> None:
            assert reliable
            assert acked
            settled.extend(range(first, stop))

        sender.observe(tell, lambda: ends.append("end"))
        await sender.send(b"one")
        await sender.send_many([b"many"] * 20)
        await sender.finish()
        assert sorted(settled) == list(range(21))
        assert ends == ["end"]
        del receiver


@kinds
@in_loop
async def test_observers_learn_of_a_cancel(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        ends: list[str] = []
        sender.observe(lambda *_: None, lambda: ends.append("end"))
        await sender.cancel()
        await eventually(lambda: receiver.outcome is not None)
        assert ends == ["end"]


@kinds
@in_loop
async def test_limits_are_the_same_and_change_nothing(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        with pytest.raises(Misuse, match="header"):
            await sender.send(b"", headers=[("k", "v")] * 257)
        with pytest.raises(Misuse, match="header"):
            await sender.send(b"", headers={"k": bytes(64_000)})
        with pytest.raises(ValueError, match="ASCII"):
            await sender.send(b"", headers={"": "v"})
        with pytest.raises(TypeError, match="header"):
            await sender.send(b"", headers={"k": 1})  # type: ignore[dict-item]
        halves = [channel() for _ in range(1025)]
        with pytest.raises(Misuse, match="attachments"):
            await sender.send(b"", attach=[half for _, half in halves])
        assert sender.statistics.sent == 0
        await sender.send(b"still good", headers=[("k", "1"), ("k", "2")])
        message = await receiver.receive()
        assert message.headers == ((b"k", b"1"), (b"k", b"2"))
        assert message.header("k") == b"1"
        assert message.header("none") is None


@kinds
@rule("AQ-SEND-14")
@pytest.mark.parametrize("end", ["finish", "cancel", "drop"])
@in_loop
async def test_a_oneshot_may_end_without_a_message(kind: str, end: str) -> None:
    async with pair(kind, oneshot=True) as (sender, receiver):
        if end == "finish":
            await sender.finish()
            assert [m async for m in receiver] == []
            return
        if end == "cancel":
            await sender.cancel()
        del sender
        gc.collect()
        with pytest.raises(Cancelled):
            await receiver.receive()


@kinds
@in_loop
async def test_requests_and_replies_by_oneshots(kind: str) -> None:
    """Many requests under way at once; each reply finds its own asker."""

    async def serve(receiver: Receiver) -> None:
        async for request in receiver:
            (reply,) = request.attachments
            assert isinstance(reply, Sender)
            await reply.send(request.payload.upper(), headers=request.headers)

    async def ask(sender: Sender, question: bytes) -> bytes:
        reply, answer = oneshot(name="reply")
        await sender.send(question, headers={"id": question}, attach=reply)
        message = await answer.receive()
        assert message.header("id") == question
        with pytest.raises(Finished):
            await answer.receive()
        return message.payload

    async with pair(kind) as (sender, receiver):
        serving = asyncio.ensure_future(serve(receiver))
        questions = [b"question %d" % i for i in range(20)]
        answers = await asyncio.gather(*(ask(sender, question) for question in questions))
        assert answers == [question.upper() for question in questions]
        await sender.finish()
        await serving


@kinds
@in_loop
async def test_a_request_that_is_not_answered_is_cancelled(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        reply, answer = oneshot()
        await sender.send(b"question", attach=reply)
        with await receiver.receive():
            pass
        with pytest.raises(Cancelled):
            await answer.receive()


@kinds
@in_loop
async def test_runs_carry_halves_too(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        inner, inner_receiver = channel()
        await sender.send(b"plain")
        await sender.send(b"carrier", attach=inner_receiver)
        await sender.finish()
        halves: list[object] = []
        async for batch in receiver.runs():
            for index in list(batch.cargo):
                halves += batch.attachments(index)
                assert batch.attachments(index) == ()
        (arrived,) = halves
        assert isinstance(arrived, Receiver)
        await inner.send(b"inside")
        assert (await arrived.receive()).payload == b"inside"


@kinds
@in_loop
async def test_both_halves_know_their_name_and_headers(kind: str) -> None:
    options = {"name": "cpu", "headers": {"unit": "s"}}
    async with pair(kind, **options) as (sender, receiver):
        for half in (sender, receiver):
            assert half.name == "cpu"
            assert half.headers == ((b"name", b"cpu"), (b"unit", b"s"))
            assert (half.channel_id is None) is (kind == "local")
