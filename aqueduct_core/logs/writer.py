"""Writing to terminals, pipes and files beside an event loop, which a full one must not hold up."""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable

STEP = 1 << 16
"""Bytes of one call: what a pipe holds, so that progress is seen while a reader is slow."""


class BackgroundWriter:
    """Writes to file descriptors in a thread of its own, in the order of the calls.

    Never waits for a reader. Holds: ``queued`` is the bytes that are not written yet; callers look
    at it before they write, and so bound it. An error ends all writing (``failure``) and throws
    away what is queued; with ``recovers`` the next call tries again, as a log on a full disk
    should. ``progress`` is called in the thread after each write and error. The thread keeps no
    process alive: ``flush`` waits for it.
    """

    def __init__(
        self,
        progress: Callable[[], None] = lambda: None,
        *,
        before: Callable[[], None] = lambda: None,
        recovers: bool = False,
    ) -> None:
        self.failure: OSError | None = None
        self.queued = 0
        self._progress = progress
        self._before = before
        self._recovers = recovers
        self._queue: deque[tuple[int, memoryview]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def write(self, descriptor: int, data: bytes) -> None:
        """Have ``data`` written, some time after this returns."""
        if not data:
            return
        with self._changed:
            if self.failure is not None:
                if not self._recovers:
                    return
                self.failure = None
            self.queued += len(data)
            self._queue.append((descriptor, memoryview(data)))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait until all is written or writing has failed, so long at most; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.queued, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._queue))
                descriptor, data = self._queue.popleft()
            try:
                self._before()
                while data:
                    written = _write(descriptor, data[:STEP])
                    data = data[written:]
                    self._wrote(written)
            except OSError as error:
                self._failed(error)

    def _wrote(self, count: int) -> None:
        with self._changed:
            self.queued -= count
            self._changed.notify_all()
        self._progress()

    def _failed(self, error: OSError) -> None:
        with self._changed:
            self.failure = error
            self.queued = 0
            self._queue.clear()
            self._changed.notify_all()
        self._progress()


def _write(descriptor: int, data: memoryview) -> int:
    """Also where another process has made the terminal that we share one that does not wait."""
    while True:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:
            select.select([], [descriptor], [])
