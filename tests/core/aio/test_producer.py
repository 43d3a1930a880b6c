"""The reconnecting producer: nothing un-acked is forgotten, numbers stay the same."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Receiver
from aqueduct_core.aio.outcomes import (
    Cancelled,
    ConnectionLost,
    LostInTransit,
    Misuse,
    ReceiverClosed,
)
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.serve import Server, bearer, serve
from aqueduct_core.aqueduct.conventions.headers import read_channel, read_connection
from aqueduct_core.errors import AuthFailed, ConnectFailed
from tests.core.aio.scene import client_tls, eventually, in_loop, server_tls


class Store:
    """What an intake does: keeps each logical number of a channel once."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], bytes] = {}
        self.unreliable: list[bytes] = []
        self.repeats = 0
        self.connections: list[ServerConnection] = []
        self.entry_starts: list[int | None] = []
        self.starts: list[int] = []
        self.headers: list[Any] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def payloads(self, name: str) -> list[bytes]:
        return [self.rows[key] for key in sorted(self.rows) if key[0] == name]

    async def take(self, server: Server) -> None:
        async for connection in server:
            self.connections.append(connection)
            claims = read_connection(connection.headers)
            assert claims.producer == "p-1"
            self.entry_starts.append(claims.sequence_start)
            self._start(self._entry(connection))

    async def _entry(self, connection: ServerConnection) -> None:
        try:
            async for message in connection.entrypoint:
                for half in message.attachments:
                    assert isinstance(half, Receiver)
                    self._start(self._channel(half))
        except ConnectionLost:
            pass

    async def _channel(self, receiver: Receiver) -> None:
        claims = read_channel(receiver.headers)
        assert claims.name is not None
        start = claims.sequence_start or 0  # unreliable ones have none
        self.starts.append(start)
        try:
            async for message in receiver:
                if not message.reliable:
                    self.unreliable.append(message.payload)
                    continue
                key = (claims.name, start + message.number)
                self.headers.append(message.headers)
                if key in self.rows:
                    self.repeats += 1
                    assert self.rows[key] == message.payload
                self.rows[key] = message.payload
        except (ConnectionLost, Cancelled, LostInTransit):
            pass

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def end(self) -> None:
        if self._tasks:
            await asyncio.wait(list(self._tasks))


@asynccontextmanager
async def storing(port: int = 0, **options: Any) -> AsyncIterator[tuple[Server, Store]]:
    """Options go to ``serve``."""
    store = Store()
    options.setdefault("tls", server_tls())
    async with serve("127.0.0.1", port, **options) as server:
        taking = asyncio.ensure_future(store.take(server))
        try:
            yield server, store
        finally:
            await server.close()
            await taking
            await store.end()


def producer(url: str, **options: Any) -> Producer:
    options.setdefault("first_wait", 0.01)
    options.setdefault("longest_wait", 0.05)
    options.setdefault("tls", client_tls())
    return Producer(url, producer="p-1", **options)


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_messages_arrive_once_and_are_counted(mode: str) -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu", mode)
            assert [await cpu.send(b"%d" % i) for i in range(10)] == list(range(10))
            assert await cpu.send(b"10", headers={"h": "v"}) == 10
            assert await cpu.send_many([b"%d" % i for i in range(11, 500)]) == 489
            await cpu.flush()
            counts = cpu.statistics
            assert (counts.sent, counts.acked, counts.pending) == (500, 500, 0)
            assert counts.acked_ranges == ((0, 500),)
            await cpu.finish()
            assert cpu.finished
            with pytest.raises(Misuse, match="finished"):
                await cpu.send(b"late")
        await eventually(lambda: len(store.rows) == 500)
        assert store.payloads("cpu") == [b"%d" % i for i in range(500)]
        assert ((b"h", b"v"),) in store.headers
        assert store.repeats == 0


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_lost_connections_lose_nothing_and_keep_the_numbers(mode: str) -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu", mode)
            disk = producing.channel("disk")
            for i in range(400):
                await cpu.send(b"%d" % i)
                await disk.send_many([b"d%d" % i, b"e%d" % i])
                if i % 100 == 50:
                    await asyncio.sleep(0.01)
                    store.connections[-1].abort("test")
                    await eventually(lambda n=i: len(store.connections) > n // 100 + 1)
            await cpu.finish()
            await disk.finish()
            totals = producing.statistics
            assert totals.reconnects == 4
            assert (totals.sent, totals.acked, totals.kept_bytes) == (1200, 1200, 0)
            assert cpu.statistics.acked_ranges == ((0, 400),)
        await eventually(lambda: len(store.rows) == 1200)
        assert store.payloads("cpu") == [b"%d" % i for i in range(400)]
        assert len(store.payloads("disk")) == 800
        assert set(store.entry_starts) == {None}  # what carries channels is never a repeat


@in_loop
async def test_a_server_that_comes_back_is_found_again() -> None:
    async with storing() as (server, store):
        port = server.address[1]
        producing = producer(server.url)
        await producing.open()
        cpu = producing.channel("cpu")
        await cpu.send(b"0")
        await cpu.flush()
    assert store.payloads("cpu") == [b"0"]
    await eventually(lambda: not producing.connected)
    assert await cpu.send(b"1") == 1
    assert await cpu.send(b"2") == 2
    async with storing(port) as (_, second):
        await cpu.finish()
        await producing.close()
        await eventually(lambda: len(second.rows) == 2)
        assert second.rows == {("cpu", 1): b"1", ("cpu", 2): b"2"}


@in_loop
async def test_unreliable_messages_are_sent_once_and_all_counted() -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            load = producing.channel("load", "unreliable")
            for i in range(50):
                await load.send(b"%d" % i)
            await asyncio.sleep(0.01)
            store.connections[-1].abort("test")
            await eventually(lambda: not producing.connected or len(store.connections) == 2)
            for i in range(50, 100):
                await load.send(b"%d" % i)
            await eventually(lambda: len(store.connections) == 2)
            await load.finish()
            counts = load.statistics
            assert counts.sent == 100
            assert counts.acked + counts.nacked + counts.unknown == 100
            assert counts.pending == 0
        assert len(set(store.unreliable)) == len(store.unreliable)


@pytest.mark.parametrize("headers", [0, 900])
@in_loop
async def test_what_is_kept_is_bounded_and_send_waits(headers: int) -> None:
    """Headers are kept, too."""
    async with storing() as (server, store):
        port = server.address[1]
        producing = producer(server.url, max_kept_bytes=20_000)
        await producing.open()
        cpu = producing.channel("cpu")
    sent = 0

    async def fill() -> None:
        nonlocal sent
        for _ in range(100):
            await cpu.send(bytes(1000 - headers), headers=[(b"k", bytes(headers))][:headers])
            sent += 1

    filling = asyncio.ensure_future(fill())
    for _ in range(50):
        await asyncio.sleep(0)
    assert 10 <= sent <= 20
    assert producing.statistics.kept_bytes <= 20_000
    async with storing(port) as (_, second):
        await filling
        await producing.close()
        await eventually(lambda: len(second.rows) == 100)
    del store


@in_loop
async def test_it_gives_up_after_a_while_with_the_reason_and_the_count() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"aqueduct://127.0.0.1:{sock.getsockname()[1]}"
    with pytest.raises(ConnectFailed, match=r"gave up after 0\.1 s") as caught:
        async with producer(url, give_up_after=0.1):
            pass
    assert "with 0 messages not acked" in str(caught.value)

    async with storing() as (server, _):
        producing = producer(server.url, give_up_after=0.1)
        await producing.open()
        cpu = producing.channel("cpu")
        await cpu.flush()
    await eventually(lambda: not producing.connected)
    await cpu.send(b"x")
    with pytest.raises(ConnectFailed, match="with 1 messages not acked"):
        await cpu.finish()
    with pytest.raises(ConnectFailed):
        await cpu.send(b"y")
    assert cpu.statistics.pending == 1
    with pytest.raises(ConnectFailed):
        producing.channel("other")
    await producing.abort()


@in_loop
async def test_a_refusal_is_final() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls(), authorize=bearer("right")) as server:
        with pytest.raises(AuthFailed):
            async with producer(server.url, token="wrong"):
                pass


@in_loop
async def test_a_receiver_that_closes_gets_the_rest_again() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu")
            await cpu.send(b"0")
            guest = await server.accept()
            (first,) = (await guest.entrypoint.receive()).attachments
            assert isinstance(first, Receiver)
            assert (await first.receive()).payload == b"0"
            await first.close()
            await cpu.send(b"1")
            (second,) = (await guest.entrypoint.receive()).attachments
            assert isinstance(second, Receiver)
            start = read_channel(second.headers).sequence_start
            assert start == 1
            assert (await second.receive()).payload == b"1"
            await cpu.finish()
        assert producing.statistics.acked == 2


@in_loop
async def test_names_are_used_once() -> None:
    async with storing() as (server, _), producer(server.url) as producing:
        producing.channel("cpu")
        with pytest.raises(Misuse, match="already"):
            producing.channel("cpu")
        with pytest.raises(Misuse, match="opened before"):
            await producing.open()
        assert "'p-1'" in repr(producing)


@in_loop
async def test_a_channel_can_start_at_a_number() -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu", start=100)
            assert await cpu.send(b"a") == 100
            await cpu.finish()
            assert (cpu.statistics.sent, cpu.statistics.acked_ranges) == (1, ((100, 101),))
        await eventually(lambda: store.rows == {("cpu", 100): b"a"})


@pytest.mark.parametrize("mode", ["ordered", "unreliable"])
@in_loop
async def test_a_payload_over_the_limit_is_refused_at_the_door(mode: str) -> None:
    async with storing() as (server, _), producer(server.url) as producing:
        cpu = producing.channel("cpu", mode)
        with pytest.raises(Misuse, match="16000001 bytes"):
            await cpu.send(bytes(16_000_001))
        await cpu.send(b"fine")
        await cpu.finish()
        assert cpu.statistics.sent == 1


@in_loop
async def test_the_first_connection_may_be_wanted_at_once() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"aqueduct://127.0.0.1:{sock.getsockname()[1]}"
    with pytest.raises(ConnectFailed):
        async with producer(url, wait_for_server=False):
            pass


@in_loop
async def test_a_producer_that_has_given_up_dials_no_more() -> None:
    """It would send again what it has told its user is not delivered."""

    async def turn_away(guest: ServerConnection) -> None:
        async for message in guest.entrypoint:
            for half in message.attachments:
                await half.close() if isinstance(half, Receiver) else half.cancel()

    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        producing = producer(server.url)
        await producing.open()
        guest = await server.accept()
        turning = asyncio.ensure_future(turn_away(guest))
        producing.channel("cpu")
        await producing.changed.until(lambda: producing.failure is not None)
        assert isinstance(producing.failure, ReceiverClosed)
        assert producing._task is not None
        await producing._task
        with pytest.raises(ConnectionLost):
            await turning
        await producing.abort()
