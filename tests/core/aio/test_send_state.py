"""The contract of halves, local and networked: ends, observers, limits, oneshots and replies."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aqueduct_core.aio.halves import Receiver, Sender, channel, oneshot
from aqueduct_core.aio.outcomes import Cancelled, Finished, Misuse
from tests.core.aio.scene import KINDS, pair
from tests.support.event_loop import eventually, in_loop
from tests.support.rules import rule

kinds = pytest.mark.parametrize("kind", KINDS)


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
