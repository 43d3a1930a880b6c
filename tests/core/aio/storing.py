"""A server that stores as an intake does, and producers that send to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Receiver
from aqueduct_core.aio.outcomes import (
    Cancelled,
    ConnectionLost,
    LostInTransit,
)
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.serve import Server, serve
from aqueduct_core.aqueduct.conventions.headers import read_channel, read_connection
from tests.support.event_loop import client_tls, server_tls


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
