"""One suite for local and networked channels: code that uses a half cannot tell which it has."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import Cancelled, Finished, Misuse, OverLimit, ReceiverClosed
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Headers
from tests.core.aio.scene import KINDS, pair
from tests.support.event_loop import eventually, in_loop
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

kinds = pytest.mark.parametrize("kind", KINDS)
modes = pytest.mark.parametrize("mode", ["ordered", "unordered", "unreliable"])


@kinds
@modes
@in_loop
async def test_messages_arrive_whole_and_numbered(kind: str, mode: str) -> None:
    async with pair(kind, mode) as (sender, receiver):
        for i in range(5):
            assert await sender.send(b"payload %d" % i, headers={"index": str(i)}) == i
        got = [await receiver.receive() for _ in range(5)]
        assert {m.number: m.payload for m in got} == {i: b"payload %d" % i for i in range(5)}
        assert all(m.header("index") == b"%d" % m.number for m in got)
        assert {m.reliable for m in got} == {mode != "unreliable"}


@kinds
@rule("AQ-LIFE-15")
@in_loop
async def test_finish_returns_when_all_is_acked_and_the_reader_sees_the_end(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send(b"a")
        await sender.send(b"b")
        await sender.finish()
        counts = sender.statistics
        assert (counts.sent, counts.acked, counts.nacked, counts.pending) == (2, 2, 0, 0)
        assert [m.payload async for m in receiver] == [b"a", b"b"]
        with pytest.raises(Finished):
            await receiver.receive()


@kinds
@in_loop
async def test_nothing_can_be_sent_after_finish(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.finish()
        with pytest.raises(Misuse, match="finished"):
            await sender.send(b"late")
        with pytest.raises(Misuse, match="finished"):
            await sender.send_many([b"late"])
        await sender.finish()
        assert [m async for m in receiver] == []


@kinds
@rule("AQ-LIFE-14")
@in_loop
async def test_cancel_throws_away_what_is_unread(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send(b"unread")
        await sender.flush()
        await eventually(lambda: receiver.statistics.received == 1)
        await sender.cancel()
        await eventually(lambda: receiver.outcome is not None)
        with pytest.raises(Cancelled):
            await receiver.receive()
        with pytest.raises(Misuse, match="cancelled"):
            await sender.send(b"late")


@kinds
@rule("AQ-LIFE-13")
@in_loop
async def test_a_closed_receiver_is_an_outcome_for_the_sender(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send(b"one")
        assert (await receiver.receive()).payload == b"one"
        await receiver.close()
        await receiver.close()
        await eventually(lambda: sender.outcome is not None)
        with pytest.raises(ReceiverClosed):
            await sender.send(b"two")
        await sender.flush()
        with pytest.raises(Misuse, match="closed on this side"):
            await receiver.receive()


@kinds
@in_loop
async def test_flush_waits_for_the_acks_of_what_was_sent(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send_many([b"x"] * 100)
        await sender.flush()
        assert sender.statistics.acked == 100
        assert sender.statistics.reliable_acked == 100
        del receiver


@kinds
@modes
@in_loop
async def test_bulk_sends_give_the_same_messages(kind: str, mode: str) -> None:
    payloads = [b"%d" % i for i in range(1000)]
    async with pair(kind, mode) as (sender, receiver):
        reading = asyncio.ensure_future(_payloads(receiver))
        assert await sender.send_many(payloads) == 1000
        await sender.flush()
        await sender.finish()
        got = await reading
        assert got == payloads if mode == "ordered" else sorted(got) == sorted(payloads)


@kinds
@modes
@in_loop
async def test_bulk_sends_give_each_message_its_headers(kind: str, mode: str) -> None:
    payloads = [b"%d" % i for i in range(300)]
    expected = {
        payload: ((b"row", payload),) if i % 3 else () for i, payload in enumerate(payloads)
    }
    async with pair(kind, mode) as (sender, receiver):
        reading = asyncio.ensure_future(_headers(receiver))
        column = HeaderColumn.of(expected.values())
        assert await sender.send_many(payloads, headers=column) == 300
        await sender.flush()
        await sender.finish()
        got = await reading
        assert dict(got) == expected
        assert len(got) == 300
        if mode == "ordered":
            assert [payload for payload, _ in got] == payloads


@kinds
@in_loop
async def test_headers_that_do_not_fit_the_payloads_are_refused(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        one = HeaderColumn.of([((b"k", b"v"),)])
        with pytest.raises(Misuse, match="1 messages for 2 payloads"):
            await sender.send_many([b"x", b"y"], headers=one)
        large = ((b"k", bytes(Config().max_headers_bytes)),)
        with pytest.raises(Misuse):
            await sender.send_many([b"x"], headers=HeaderColumn.of([((b"", b""),)]))
        for wrong in (large, ((b"k", b""),) * (Config().max_header_pairs + 1)):
            with pytest.raises(OverLimit):
                await sender.send_many([b"x"], headers=HeaderColumn.of([wrong]))
        assert sender.statistics.sent == 0
        await sender.send_many([b"x"], headers=one)
        await sender.finish()
        assert await _headers(receiver) == [(b"x", ((b"k", b"v"),))]


async def _headers(receiver: Receiver) -> list[tuple[bytes, Headers]]:
    return [(m.payload, m.headers) async for m in receiver]


async def _payloads(receiver: Receiver) -> list[bytes]:
    return [m.payload async for m in receiver]


@kinds
@in_loop
async def test_batches_hold_columns_and_follow_messages_that_were_read_singly(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send_many([b"%d" % i for i in range(300)])
        await sender.finish()
        assert (await receiver.receive()).payload == b"0"
        numbers: list[int] = []
        payloads: list[bytes] = []
        async for batch in receiver.batches():
            numbers.extend(range(batch.first, batch.first + len(batch)))
            payloads.extend(m.payload for m in batch)
        assert numbers == list(range(1, 300))
        assert payloads == [b"%d" % i for i in range(1, 300)]


@kinds
@in_loop
async def test_any_bytes_are_a_payload(kind: str) -> None:
    large = bytes(range(256)) * 40_000
    async with pair(kind) as (sender, receiver):
        for payload in (b"", b"\xff\xfe\x00", large, b"after"):
            await sender.send(payload)
            assert (await receiver.receive()).payload == payload
        with pytest.raises(TypeError, match="encode"):
            await sender.send("text")  # type: ignore[arg-type]
        with pytest.raises(Misuse, match="16000001 bytes"):
            await sender.send(bytes(16_000_001))
        await sender.send(memoryview(b"still open"))
        assert (await receiver.receive()).payload == b"still open"


@kinds
@rule("AQ-SEND-14")
@in_loop
async def test_a_oneshot_carries_one_message_and_ends(kind: str) -> None:
    async with pair(kind, oneshot=True) as (sender, receiver):
        await sender.send(b"only")
        with pytest.raises(Misuse):
            await sender.send(b"second")
        await sender.finish()
        assert [m.payload async for m in receiver] == [b"only"]


@kinds
@in_loop
async def test_a_sender_waits_while_nobody_reads(kind: str) -> None:
    """Back-pressure: the sender stops after a bounded amount, and goes on when it is read."""
    large = bytes(256 * 1024)
    async with pair(kind) as (sender, receiver):
        sent = 0

        async def fill() -> None:
            nonlocal sent
            for _ in range(64):
                await sender.send(large)
                sent += 1
            await sender.finish()

        filling = asyncio.ensure_future(fill())
        await let_happen()
        assert 4 <= sent < 40
        assert not filling.done()
        assert receiver.statistics.queued_bytes <= 6 * 1024 * 1024
        got = 0
        async for message in receiver:
            got += len(message.payload)
        await filling
        assert got == 64 * len(large)


@kinds
@in_loop
async def test_a_dropped_sender_cancels(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send(b"x")
        del sender
        gc.collect()
        await eventually(lambda: receiver.outcome is not None)
        with pytest.raises(Cancelled):
            await receiver.receive()


@kinds
@in_loop
async def test_a_dropped_receiver_closes(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        del receiver
        gc.collect()
        await eventually(lambda: sender.outcome is not None)
        with pytest.raises(ReceiverClosed):
            await sender.send(b"x")


@kinds
@in_loop
async def test_halves_travel_in_messages_of_any_channel(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        inner, inner_receiver = channel(name="inner", headers={"k": "v"})
        await inner.send(b"before")
        await sender.send(b"carrier", attach=inner_receiver)
        await inner.send(b"after")
        await inner.finish()
        (arrived,) = (await receiver.receive()).attachments
        assert isinstance(arrived, Receiver)
        assert arrived.name == "inner"
        assert arrived.headers == ((b"name", b"inner"), (b"k", b"v"))
        assert [m.payload async for m in arrived] == [b"before", b"after"]


@kinds
@in_loop
async def test_a_sender_travels_and_answers(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        answers, answer_receiver = channel(oneshot=True)
        await sender.send(b"question", attach=[answers])
        with pytest.raises(Misuse, match="no longer here"):
            await answers.send(b"x")
        message = await receiver.receive()
        (far,) = message.attachments
        assert message.attachments == (far,)
        assert isinstance(far, Sender)
        await far.send(b"answer")
        assert (await answer_receiver.receive()).payload == b"answer"


@kinds
@rule("AQ-LIFE-20")
@pytest.mark.parametrize("how", ["dropped", "with block", "receiver closed", "batch dropped"])
@in_loop
async def test_halves_that_nobody_takes_are_given_up(kind: str, how: str) -> None:
    async with pair(kind) as (sender, receiver):
        kept_sender, gone_receiver = channel()
        gone_sender, kept_receiver = channel()
        await sender.send(b"carrier", attach=[gone_receiver, gone_sender])
        if how == "receiver closed":
            await eventually(lambda: receiver.statistics.received == 1)
            await receiver.close()
        elif how == "batch dropped":
            async for batch in receiver.batches():
                assert batch.count == 1
                break
            del batch
        else:
            message = await receiver.receive()
            if how == "with block":
                with message:
                    pass
            del message
        gc.collect()
        await eventually(lambda: None not in (kept_sender.outcome, kept_receiver.outcome))
        assert isinstance(kept_sender.outcome, ReceiverClosed)
        assert isinstance(kept_receiver.outcome, Cancelled)


@kinds
@in_loop
async def test_context_managers_finish_close_and_cancel(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        async with sender:
            await sender.send(b"x")
        async with receiver:
            assert [m.payload async for m in receiver] == [b"x"]
    async with pair(kind) as (sender, receiver):
        with pytest.raises(ZeroDivisionError):
            async with sender:
                raise ZeroDivisionError
        await eventually(lambda: receiver.outcome is not None)
        assert isinstance(receiver.outcome, Cancelled)


@kinds
@rule("AQ-SEND-13")
@in_loop
async def test_the_mode_is_fixed_by_the_first_message(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        sender.use("unordered")
        await sender.send(b"x")
        with pytest.raises(Misuse, match="mode"):
            sender.use("ordered")
        assert (await receiver.receive()).payload == b"x"
