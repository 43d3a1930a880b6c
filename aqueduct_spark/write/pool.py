"""Connections that a Python worker keeps from one micro-batch to the next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Protocol, TypeVar, cast

IDLE_SECONDS = 15.0
"""A connection that no task used for so long is closed: longer than the pause between micro-batches
of a busy stream, and far below the life of an idle worker."""

MAX_IDLE = 16
"""Connections without a task, over all endpoints; the longest unused one is closed first."""

GOODBYE_SECONDS = 2.0
"""For the end of a connection, or of a failed attempt's channels, to reach the receiver."""


class PooledConnection(Protocol):
    """A connection that may be used by one attempt after another. ``reused``: it was."""

    reused: bool

    @property
    def alive(self) -> bool: ...

    async def close(self, seconds: float) -> None:
        """End the connection in good order; at once when that takes longer."""


C = TypeVar("C", bound=PooledConnection)


class Pool:
    """Idle connections by what two uses must have in common (``key``).

    A connection is handed to one task attempt at a time: `lease` takes it out, and only
    `give_back`, after a success, puts it in again. One that failed is never seen again. All calls
    belong to one event loop.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS, most: int = MAX_IDLE) -> None:
        self._idle_seconds = idle_seconds
        self._most = most
        self._idle: list[tuple[Hashable, PooledConnection, asyncio.TimerHandle]] = []
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> int:
        """Connections that no task has."""
        return len(self._idle)

    async def lease(self, key: Hashable, dial: Callable[[], Awaitable[C]]) -> C:
        """An idle connection, or a new one; the key says of which kind. Raises what ``dial``
        raises."""
        for index in range(len(self._idle) - 1, -1, -1):
            held, connection, timer = self._idle[index]
            if held == key:
                del self._idle[index]
                timer.cancel()
                if connection.alive:
                    connection.reused = True
                    return cast(C, connection)
        return await dial()

    def give_back(self, key: Hashable, connection: PooledConnection) -> None:
        """Keep a connection on which everything is acked."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._idle_seconds, self._expire, connection)
        self._idle.append((key, connection, timer))
        while len(self._idle) > self._most:
            self._expire(self._idle[0][1])

    def discard(self, key: Hashable) -> None:
        """End the idle connections of a key: one like them was lost, so they are not trusted."""
        for connection in [idle for held, idle, _ in self._idle if held == key]:
            self._expire(connection)

    async def close(self) -> None:
        """End all idle connections in good order."""
        for _, connection, _ in list(self._idle):
            self._expire(connection)
        if self._closing:
            await asyncio.wait(self._closing)

    def _expire(self, connection: PooledConnection) -> None:
        for index, (_, held, timer) in enumerate(self._idle):
            if held is connection:
                timer.cancel()
                del self._idle[index]
                task = asyncio.get_running_loop().create_task(connection.close(GOODBYE_SECONDS))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
                return
