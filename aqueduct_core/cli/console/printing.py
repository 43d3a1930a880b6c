"""Printing beside the event loop: who does not read what we print must not stop the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from types import TracebackType

from aqueduct_core.logs.writer import BackgroundWriter
from aqueduct_core.transport.awaiting import Signal

QUEUE_BYTES = 4 * 1024 * 1024
"""Bytes that wait to be written, above which nothing more is taken out of channels: what then comes
fills their windows, and their senders wait."""

INTERRUPT_SECONDS = 1.0
"""Longest wait for a reader after Ctrl-C or SIGTERM."""


class OutputStream:
    """One of the two; ``write`` returns at once."""

    def __init__(self, writer: BackgroundWriter, descriptor: int) -> None:
        self._writer = writer
        self._descriptor = descriptor

    def write(self, data: bytes) -> None:
        self._writer.write(self._descriptor, data)


class Printer:
    """Standard output and standard error of a verb that runs a protocol, in one order.

    Await `room` before each write: then a bounded number of bytes waits, and callers are served
    in their order. As a context manager it ends when all is written; with an interrupt, when that
    has taken `INTERRUPT_SECONDS`. Raises what writing raised, BrokenPipeError as a rule, in `room`
    and at the end.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = BackgroundWriter(self._progress)
        self._changed = Signal()
        self._turns = asyncio.Lock()
        self._when_failed: Callable[[], None] = lambda: None
        self.out = OutputStream(self._writer, sys.stdout.fileno())
        self.errors = OutputStream(self._writer, sys.stderr.fileno())

    @property
    def failure(self) -> OSError | None:
        return self._writer.failure

    def when_failed(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` in the event loop when writing fails."""
        self._when_failed = callback

    async def room(self) -> None:
        """Return when fewer than `QUEUE_BYTES` wait."""
        async with self._turns:
            await self._until(QUEUE_BYTES)

    async def __aenter__(self) -> Printer:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            await self._until(1)
            return
        # what has gone wrong is told by itself; here it only matters that all before it is told
        interrupted = issubclass(kind, asyncio.CancelledError)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(INTERRUPT_SECONDS if interrupted else None):
                await self._until(1)

    async def _until(self, below: int) -> None:
        writer = self._writer
        await self._changed.until(lambda: writer.queued < below or writer.failure is not None)
        if writer.failure is not None:
            raise writer.failure

    def _progress(self) -> None:
        """In the thread of the writer."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._progressed)

    def _progressed(self) -> None:
        self._changed.fire()
        if self.failure is not None:
            self._when_failed()
