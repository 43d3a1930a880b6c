"""Connections that a Python worker keeps from one micro-batch to the next."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.options.access import DialTls
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.background import BackgroundLoop
from aqueduct_spark.write.pooled_connection import PooledConnection

IDLE_SECONDS = 15.0
"""A connection that no task used for so long is closed: longer than the pause between micro-batches
of a busy stream, and far below the life of an idle worker."""

MAX_IDLE = 16
"""Connections without a task, over all endpoints; the longest unused one is closed first."""

GOODBYE_SECONDS = 2.0
"""For the end of a connection, or of a failed attempt's channels, to reach the receiver."""


class ConnectionKey(NamedTuple):
    """What two uses of a connection must have in common."""

    address: HostPort
    writer: str
    tls: DialTls
    token: bytes
    transport: str
    max_message_bytes: int

    @classmethod
    def of(
        cls, address: HostPort, options: WriteOptions, *, token: str | None, writer: str
    ) -> ConnectionKey:
        """Holds a digest of the token: another one means another connection."""
        return cls(
            address,
            writer,
            options.tls,
            hashlib.sha256((token or "").encode()).digest(),
            options.transport,
            options.max_message_bytes,
        )


class Pool:
    """Idle connections by what they may be used for; all calls belong to one event loop.

    A connection is handed to one task attempt at a time: `lease` takes it out, and only
    `give_back`, after a success, puts it in again. One that failed is never seen again.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS, most: int = MAX_IDLE) -> None:
        self._idle_seconds = idle_seconds
        self._most = most
        self._idle: list[tuple[ConnectionKey, PooledConnection, asyncio.TimerHandle]] = []
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def idle(self) -> int:
        """Connections that no task has."""
        return len(self._idle)

    async def lease(
        self, key: ConnectionKey, dial: Callable[[], Awaitable[PooledConnection]]
    ) -> PooledConnection:
        """An idle connection, or a new one. Raises what ``dial`` raises."""
        for index in range(len(self._idle) - 1, -1, -1):
            held, line, timer = self._idle[index]
            if held == key:
                del self._idle[index]
                timer.cancel()
                if line.alive:
                    line.reused = True
                    return line
        return await dial()

    def give_back(self, key: ConnectionKey, line: PooledConnection) -> None:
        """Keep a connection on which everything is acked."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._idle_seconds, self._expire, line)
        self._idle.append((key, line, timer))
        while len(self._idle) > self._most:
            self._expire(self._idle[0][1])

    def discard(self, key: ConnectionKey) -> None:
        """End the idle connections of a key: one like them was lost, so they are not trusted."""
        for line in [line for held, line, _ in self._idle if held == key]:
            self._expire(line)

    async def close(self) -> None:
        """End all idle connections in good order."""
        for _, line, _ in list(self._idle):
            self._expire(line)
        if self._closing:
            await asyncio.wait(self._closing)

    def _expire(self, line: PooledConnection) -> None:
        for index, (_, held, timer) in enumerate(self._idle):
            if held is line:
                timer.cancel()
                del self._idle[index]
                task = asyncio.get_running_loop().create_task(line.close(GOODBYE_SECONDS))
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
                return


class Worker:
    """The event loop and the pool of one Python worker process."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self.process = os.getpid()
        self.loop = BackgroundLoop()
        self.loop.__enter__()
        self.pool = Pool(idle_seconds)

    def close(self) -> None:
        """End idle connections and the loop."""
        self.loop.run(self.pool.close())
        self.loop.__exit__(None, None, None)


_worker: Worker | None = None


def this_worker() -> Worker:
    """The one of this process. It lives as long as the process; Spark ends workers by a signal,
    and what is idle then is noticed by the receiver's own timeout."""
    global _worker
    if _worker is None or _worker.process != os.getpid():
        _worker = Worker()
    return _worker
