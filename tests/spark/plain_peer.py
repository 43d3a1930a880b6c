"""A receiver on the asyncio API that knows nothing of our headers: it reads every channel and notes
what came, and how each ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Receiver, Sender
from aqueduct_core.aio.message import Message
from aqueduct_core.aio.outcomes import Cancelled, ConnectionLost, Finished, LostInTransit, Misuse
from aqueduct_core.aio.serve import Server, serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.transport.tls.credentials import ServerTls

ENDS = (Finished, Cancelled, LostInTransit, ConnectionLost, Misuse)


@dataclass
class Heard:
    """One channel as the peer saw it."""

    connection: int
    headers: Headers
    messages: list[tuple[bytes, Headers]] = field(default_factory=list)
    end: str = "open"

    @property
    def name(self) -> str:
        return dict(self.headers)[b"name"].decode()

    @property
    def values(self) -> list[bytes]:
        return [payload for payload, _ in self.messages]


class Peer:
    """Reads all it is sent. ``close_at`` closes a channel after that many messages; ``unread``
    leaves channels unread; ``drop`` throws entrypoint messages away with what is attached."""

    def __init__(self, *, close_at: int | None = None, unread: bool = False) -> None:
        self.heard: list[Heard] = []
        self.connections: list[ServerConnection] = []
        self.url = ""
        self._close_at = close_at
        self._unread = unread
        self._kept: list[Message] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def named(self, name: str) -> list[Heard]:
        return [heard for heard in self.heard if heard.name == name]

    def values(self, name: str) -> list[bytes]:
        return [value for heard in self.named(name) for value in heard.values]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    async def serve(self, server: Server) -> None:
        async for connection in server:
            self.connections.append(connection)
            self._start(self._entrypoint(connection))

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, coroutine: object) -> None:
        task = asyncio.ensure_future(coroutine)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _entrypoint(self, connection: ServerConnection) -> None:
        try:
            async for message in connection.entrypoint:
                if self._unread:
                    self._kept.append(message)
                    continue
                for half in message.attachments:
                    if isinstance(half, Sender):
                        await half.finish()
                        continue
                    heard = Heard(connection.id, half.headers)
                    self.heard.append(heard)
                    self._start(self._channel(half, heard))
        except ENDS:
            pass

    async def _channel(self, receiver: Receiver, heard: Heard) -> None:
        try:
            while True:
                message = await receiver.receive()
                heard.messages.append((message.payload, message.headers))
                if len(heard.messages) == self._close_at:
                    await receiver.close()
                    heard.end = "Closed"
                    return
        except ENDS as end:
            heard.end = type(end).__name__


@asynccontextmanager
async def listening(
    peer: Peer,
    tls: ServerTls,
    *,
    port: int = 0,
    config: Config | None = None,
    headers: tuple[tuple[str, str], ...] = (),
    **options: Any,
) -> AsyncIterator[Server]:
    """Further options go to ``serve``."""
    async with serve(
        "127.0.0.1", port, tls=tls, config=config, headers=headers, **options
    ) as server:
        peer.url = server.url
        task = asyncio.ensure_future(peer.serve(server))
        try:
            yield server
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await server.close(drain_timeout=0.5)
            await peer.stop()
