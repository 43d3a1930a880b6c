"""Every waiting call is cancelled at each point at which it waits, one after the other: what it has
done is either whole or not there, and the call can be made again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import ConnectionLost, Misuse
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.serve import serve
from tests.core.aio.scene import KINDS, pair, scene
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import client_tls, in_loop, server_tls
from tests.support.virtual_loop import let_happen

kinds = pytest.mark.parametrize("kind", KINDS)
LARGE = bytes(1 << 20)
MOST_WAITS = 200


class _CancelledAt:
    """Awaits ``call``, and cancels the task that it runs in at its wait number ``at``: as soon as
    it waits, or (``late``) when what it waits for has just come."""

    def __init__(self, call: Coroutine[Any, Any, Any], at: int, *, late: bool) -> None:
        self._call = call
        self._at = at
        self._late = late
        self.done = False

    def __await__(self) -> Generator[Any, None, None]:
        task = asyncio.current_task()
        assert task is not None
        waits = 0
        error: BaseException | None = None
        while True:
            try:
                wait = self._call.send(None) if error is None else self._call.throw(error)
            except StopIteration:
                self.done = True
                return
            waits += 1
            if waits == self._at and self._late and wait is not None:
                wait.add_done_callback(lambda _: task.cancel())
            elif waits == self._at:
                asyncio.get_running_loop().call_soon(task.cancel)
            error = None
            try:
                yield wait
            except BaseException as thrown:
                error = thrown


async def cancelled_at_each_wait(call: Callable[[], Coroutine[Any, Any, Any]]) -> int:
    """Make the call again and again, cancelled one wait later each time, until it comes to its end;
    how often it was cancelled."""
    for number in range(MOST_WAITS):
        attempt = _CancelledAt(call(), number // 2 + 1, late=number % 2 == 1)
        task = asyncio.ensure_future(_await(attempt))
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()
            assert attempt.done
            return number
    raise AssertionError(f"it waits more than {MOST_WAITS // 2} times")


async def _await(attempt: _CancelledAt) -> None:
    await attempt


@kinds
@in_loop
async def test_send(kind: str) -> None:
    """Into a queue that is full: only the last attempt has sent something."""
    async with pair(kind) as (sender, receiver):
        await _fill(sender)
        before = sender.statistics.sent
        reading = asyncio.ensure_future(_read_slowly(receiver))
        await cancelled_at_each_wait(lambda: sender.send(b"x"))
        assert sender.statistics.sent == before + 1
        await sender.finish()
        assert await reading == before + 1


@kinds
@in_loop
async def test_send_and_wait(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        await _fill(sender)
        reading = asyncio.ensure_future(_read_slowly(receiver))
        await cancelled_at_each_wait(lambda: sender.send_and_wait(b"x"))
        sent = sender.statistics.sent
        await sender.finish()
        assert await reading == sent


@kinds
@in_loop
async def test_send_many(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        reading = asyncio.ensure_future(_read_slowly(receiver))
        await cancelled_at_each_wait(lambda: sender.send_many([LARGE] * 16))
        sent = sender.statistics.sent
        assert sent >= 16
        await sender.finish()
        assert await reading == sent


@kinds
@in_loop
async def test_flush_and_finish(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        reading = asyncio.ensure_future(_read_slowly(receiver))
        await sender.send_many([b"x"] * 10)
        await cancelled_at_each_wait(sender.flush)
        assert sender.statistics.acked == 10
        await sender.send(b"y")
        await cancelled_at_each_wait(sender.finish)
        assert await reading == 11


@kinds
@in_loop
async def test_receive(kind: str) -> None:
    async with pair(kind) as (sender, receiver):

        async def send_later() -> None:
            for _ in range(3):
                await let_happen(0.1)
                await sender.send(b"x")

        sending = asyncio.ensure_future(send_later())
        for number in range(3):
            got: list[int] = []
            await cancelled_at_each_wait(lambda: _receive(receiver, got))  # noqa: B023
            assert got == [number]
        await sending


async def _receive(receiver: Receiver, got: list[int]) -> None:
    got.append((await receiver.receive()).number)


async def _fill(sender: Sender) -> None:
    """Send until nothing makes room any more but a reader."""

    async def send() -> None:
        while True:
            await sender.send(LARGE)

    filling = asyncio.ensure_future(send())
    await let_happen()
    filling.cancel()
    await asyncio.wait([filling])


async def _read_slowly(receiver: Receiver) -> int:
    count = 0
    async for _ in receiver:
        count += 1
        await asyncio.sleep(0)
    return count


@in_loop
async def test_connect_and_accept() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        made: list[Any] = []

        async def dial() -> None:
            made.append(await connect(server.url, tls=client_tls()))

        assert await cancelled_at_each_wait(dial) >= 1
        [connection] = made
        async with connection:
            await connection.entrypoint.send(b"here")
            reasons = []
            async for served in server:
                try:
                    assert (await served.entrypoint.receive()).payload == b"here"
                    break
                except ConnectionLost as error:
                    reasons.append(error.reason)
            assert set(reasons) == {"the dial was given up"}


@in_loop
async def test_serve() -> None:
    open_ones: list[Any] = []

    async def start() -> None:
        open_ones.append(await serve("localhost", 0, tls=server_tls()))

    assert await cancelled_at_each_wait(start) >= 1
    [server] = open_ones
    await cancelled_at_each_wait(server.close)
    with pytest.raises(Misuse):
        await server.accept()


@pytest.mark.parametrize("verb", ["close", "cancel"])
@in_loop
async def test_the_end_of_a_connection(verb: str) -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        await sender.send(b"x")
        await cancelled_at_each_wait(getattr(set_up.client, verb))
        assert set_up.client.closed is not None
        await set_up.served.wait_closed()
        del far


@in_loop
async def test_a_producer_is_opened_or_it_is_closed() -> None:
    async with storing() as (server, _):
        made: list[Producer] = []

        async def start() -> None:
            made.append(producer(server.url))
            await made[-1].open()

        assert await cancelled_at_each_wait(start) >= 1
        *cancelled, opened = made
        for each in cancelled:
            assert isinstance(each.failure, Misuse)
        assert opened.connected
        await cancelled_at_each_wait(opened.close)


@in_loop
async def test_what_a_producer_does() -> None:
    """Of each message that was sent, whole or not at all, the receiver has one."""
    async with (
        storing() as (server, store),
        producer(server.url, resend_buffer_bytes=2048) as sending,
    ):
        lines = sending.channel("lines")
        calls: list[Callable[[], Coroutine[Any, Any, Any]]] = [
            lambda: lines.send(bytes(900)),
            lambda: lines.send_and_wait(bytes(900)),
            lambda: lines.send_many([bytes(900)] * 5),
            lines.stored,
            lambda: sending.position("other"),
            sending.flush,
            lines.finish,
        ]
        for call in calls:
            await cancelled_at_each_wait(call)
        assert lines.finished
        assert len(store.payloads("lines")) == lines.statistics.sent == lines.statistics.acked
