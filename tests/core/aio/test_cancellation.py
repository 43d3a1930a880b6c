"""Every waiting call may be cancelled at the point where it waits, and nothing is lost by it."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.halves import Receiver, Sender, channel
from tests.core.aio.scene import KINDS, pair, scene
from tests.support.event_loop import eventually, in_loop
from tests.support.virtual_loop import let_happen

kinds = pytest.mark.parametrize("kind", KINDS)


async def cancelled_while_waiting(task: asyncio.Future[object]) -> None:
    for _ in range(5):
        await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@kinds
@in_loop
async def test_receive(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        for i in range(20):
            await cancelled_while_waiting(asyncio.ensure_future(receiver.receive()))
            await sender.send(b"%d" % i)
            assert (await receiver.receive()).payload == b"%d" % i


@kinds
@in_loop
async def test_receive_at_the_moment_a_message_comes(kind: str) -> None:
    """The message is with the one who was cancelled, or with the next one; never gone."""
    got: list[bytes] = []
    async with pair(kind) as (sender, receiver):
        sending = asyncio.ensure_future(_send_slowly(sender))
        while len(got) < 200:
            task = asyncio.ensure_future(receiver.receive())
            await asyncio.sleep(0)
            task.cancel()
            try:
                got.append((await task).payload)
            except asyncio.CancelledError:
                await asyncio.sleep(0)
        await sending
    assert got == [b"%d" % i for i in range(200)]


async def _send_slowly(sender: Sender) -> None:
    for i in range(200):
        await sender.send(b"%d" % i)
        await asyncio.sleep(0)


@kinds
@in_loop
async def test_a_send_that_waits_for_room_has_sent_nothing(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        large = bytes(512 * 1024)
        attached_sender, attached = channel()

        async def fill() -> None:
            while True:
                await sender.send(large)

        filling = asyncio.ensure_future(fill())
        await let_happen()
        await cancelled_while_waiting(filling)
        task = asyncio.ensure_future(sender.send(b"never", attach=attached))
        await cancelled_while_waiting(task)
        sent = sender.statistics.sent
        reading = asyncio.ensure_future(_count(receiver))
        await sender.send(b"last", attach=attached)
        await attached_sender.send(b"x")
        await sender.finish()
        assert await reading == sent + 1


async def _count(receiver: Receiver) -> int:
    return len([m async for m in receiver])


@kinds
@in_loop
async def test_a_cancelled_finish_can_be_called_again(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await sender.send(b"x")
        task = asyncio.ensure_future(sender.finish())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await sender.finish()
        assert [m.payload async for m in receiver] == [b"x"]


@in_loop
async def test_a_cancelled_close_leaves_a_connection_that_can_be_closed() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        await set_up.client.entrypoint.send(b"", attach=receiver)
        await sender.send(b"x")
        task = asyncio.ensure_future(set_up.client.close())
        await cancelled_while_waiting(task)
        await set_up.client.close()
        closed = set_up.client.closed
        assert closed is not None
        assert closed.code == 0


@in_loop
async def test_one_waiter_that_leaves_takes_nothing_from_the_other() -> None:
    sender, receiver = channel()
    first = asyncio.ensure_future(receiver.receive())
    second = asyncio.ensure_future(receiver.receive())
    await asyncio.sleep(0)
    await sender.send(b"x")
    first.cancel()
    await eventually(second.done)
    assert (await second).payload == b"x"
    assert first.cancelled()
