"""What a producer learns of receipts, also from servers that give none, or nonsense."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Receiver, Sender
from aqueduct_core.aio.outcomes import ConnectionLost, Misuse
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.serve import Server, serve
from aqueduct_core.aqueduct.conventions.receipts import (
    CommittedMessages,
    to_payload,
    wants_receipts,
)
from aqueduct_core.errors import SinkFailed
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.waiting import LONG

Answer = Callable[[Sender], Coroutine[Any, Any, None]]


class Peer:
    """Takes all messages, and does with receipts channels what it was told to."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Sender] = []
        self.connections: list[ServerConnection] = []
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def take(self, server: Server) -> None:
        async for connection in server:
            self.connections.append(connection)
            self._start(self._read(connection.entrypoint))

    async def _read(self, receiver: Receiver) -> None:
        try:
            async for message in receiver:
                for half in message.attachments:
                    if isinstance(half, Receiver):
                        self._start(self._read(half))
                    else:
                        assert wants_receipts(half.headers)
                        self.asked.append(half)
                        await self._answer(half)
        except ConnectionLost:
            pass

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        if self._tasks:
            await asyncio.wait(list(self._tasks))


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[tuple[Producer, Peer]]:
    peer = Peer(answer)
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        taking = asyncio.ensure_future(peer.take(server))
        try:
            async with Producer(
                server.url, producer="p-1", tls=client_tls(), first_wait=0.01, longest_wait=0.05
            ) as producer:
                yield producer, peer
        finally:
            await server.close()
            await taking
            await peer.end()


async def finish(sender: Sender) -> None:
    await sender.finish()


async def cancel(sender: Sender) -> None:
    await sender.cancel()


async def nonsense(sender: Sender) -> None:
    await sender.send(b"committed: all of it")


async def another_version(sender: Sender) -> None:
    await sender.send(b'{"v":2,"committed":[]}')


async def hello(sender: Sender) -> None:
    await sender.send(to_payload(()))


async def silence(sender: Sender) -> None:
    pass


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (finish, "finished the receipts channel"),
        (cancel, "cancelled it"),
        (nonsense, "not JSON"),
        (another_version, "another version"),
    ],
)
@in_loop
async def test_a_server_without_receipts_is_a_clear_error(answer: Answer, text: str) -> None:
    async with answering(answer) as (producer, _):
        readings = producer.channel("readings")
        await readings.send(b"x")
        await readings.stored(0, timeout=LONG)
        with pytest.raises(SinkFailed, match=rf"AQUEDUCT_SINK\.NO_RECEIPTS.*{text}"):
            await readings.committed()
        with pytest.raises(SinkFailed, match="NO_RECEIPTS"):
            await producer.committed(timeout=LONG)
        assert readings.statistics.acked == 1


@in_loop
async def test_a_server_that_ignores_the_question_is_named_at_the_timeout() -> None:
    async with answering(silence) as (producer, _):
        readings = producer.channel("readings")
        await readings.send(b"x")
        with pytest.raises(SinkFailed, match="has not answered the request for receipts"):
            await readings.committed(timeout=0.2)


@in_loop
async def test_nothing_is_asked_for_until_somebody_wants_it_and_then_on_each_connection() -> None:
    async with answering(hello) as (producer, peer):
        readings = producer.channel("readings", start=5)
        await readings.send_many([b"a", b"b", b"c"])
        await readings.flush()
        assert peer.asked == []
        assert readings.statistics.committed == 0
        waiting = asyncio.ensure_future(readings.committed(6))
        await eventually(lambda: len(peer.asked) == 1)
        others = [
            CommittedMessages("other", True, ((0, 99),)),
            CommittedMessages("readings", False, ((0, 99),)),
            CommittedMessages("readings", True, ((0, 99),), 8),
        ]
        await peer.asked[0].send(
            to_payload([*others, CommittedMessages("readings", True, ((0, 6),))])
        )
        await eventually(lambda: readings.statistics.committed == 1)
        assert not waiting.done()
        peer.connections[-1].abort("test")
        await eventually(lambda: len(peer.asked) == 2)
        await peer.asked[1].send(to_payload([CommittedMessages("readings", True, ((0, 7),))]))
        await waiting
        assert readings.statistics.committed == 2
        with pytest.raises(SinkFailed, match=r"1 messages are not committed .* after 0\.1 s"):
            await readings.committed(timeout=0.1)
        # told early, the channel is made later
        more = producer.channel("other")
        await more.send(b"x")
        await more.committed(timeout=LONG)


@in_loop
async def test_receipts_that_are_not_read_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aqueduct_core.aio.producer_state.MAX_RANGES", 50)
    async with answering(hello) as (producer, peer):
        readings = producer.channel("readings")
        await readings.send(b"x")
        waiting = asyncio.ensure_future(readings.committed())
        await eventually(lambda: len(peer.asked) == 1)
        holes = [CommittedMessages("c", True, tuple((n, n + 1) for n in range(0, 200, 2)))]
        await peer.asked[0].send(to_payload(holes))
        with pytest.raises(SinkFailed, match="too many pieces"):
            await waiting


@in_loop
async def test_what_has_no_receipts_and_numbers_that_were_not_sent_are_refused() -> None:
    async with answering(hello) as (producer, _):
        load, readings = producer.channel("load", "unreliable"), producer.channel("c", start=7)
        await readings.send(b"x")
        for number in (6, 8, -1):
            with pytest.raises(Misuse, match=f"sent no message {number}"):
                await readings.stored(number)
            with pytest.raises(Misuse, match=f"sent no message {number}"):
                await readings.committed(number)
        with pytest.raises(Misuse, match="no receipts"):
            await load.committed()
        with pytest.raises(Misuse, match="no logical numbers"):
            await load.stored(0)
        with pytest.raises(Misuse, match="no logical numbers"):
            load.skip_to(9)


@in_loop
async def test_stored_has_a_timeout_and_ends_when_the_producer_gives_up() -> None:
    async with answering(hello) as (producer, peer):
        readings = producer.channel("readings")
        await readings.send(b"x")
        await readings.stored()
        peer.connections[-1].abort("test")
        await eventually(lambda: not producer.connected)
        await readings.send(b"y")
        waiting = asyncio.ensure_future(readings.committed(1))
        with pytest.raises(SinkFailed, match=r"1 messages have no ack .* after 0\.001 s"):
            await readings.stored(1, timeout=0.001)
        await readings.stored(0)
        await producer.cancel()
        with pytest.raises(Misuse, match="closed"):
            await waiting
