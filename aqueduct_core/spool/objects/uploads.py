"""Threads that carry operations of the log out, and a descriptor that says when one has ended."""

from __future__ import annotations

import heapq
import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count

from aqueduct_core.spool.objects.store import ObjectStore, Operation, StoreOutcome, StoreUnavailable

_CLOSE_SECONDS = 10.0

_Entry = tuple[float, int, int, Operation | None]


class Uploads:
    """Carries out operations in threads of its own, each when it is due. One thread submits and
    collects; ends with `close`.

    Args:
        threads: operations that are carried out at once.
        clock: monotonic seconds, in which dues are given.
    """

    def __init__(
        self, store: ObjectStore, threads: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._clock = clock
        self._changed = threading.Condition()
        self._waiting: list[_Entry] = []
        self._serial = count()
        self._closed = False
        self._ended: deque[tuple[int, StoreOutcome]] = deque()
        self._wake_at = math.inf
        self._readable, self._written = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._threads = [
            threading.Thread(target=self._work, name=f"spool-upload-{i}", daemon=True)
            for i in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, number: int, operation: Operation) -> None:
        """Carry an operation out; `ended` gives its outcome under this number."""
        self._push((self._clock(), next(self._serial), number, operation))

    def wake(self, at: float) -> None:
        """Have `fileno` readable at this time."""
        if at < self._wake_at:
            self._wake_at = at
            self._push((at, next(self._serial), 0, None))

    def fileno(self) -> int:
        """Readable when an operation has ended, or a time to wake has come."""
        return self._readable

    def notify(self) -> None:
        """Have `fileno` readable now; any thread may call."""
        try:
            os.write(self._written, b".")
        except (BlockingIOError, OSError):
            pass  # there is more than enough to read; or all is closed

    def ended(self) -> list[tuple[int, StoreOutcome]]:
        """Number and outcome of what has ended since the last call. Never blocks."""
        if self._wake_at <= self._clock():
            self._wake_at = math.inf
        try:
            os.read(self._readable, 65_536)
        except BlockingIOError:
            pass
        return [self._ended.popleft() for _ in range(len(self._ended))]

    def close(self) -> None:
        """Begin nothing more. What is under way may still take place."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(_CLOSE_SECONDS)
        # a thread that is still waiting for the store would write into another file of that number
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self._written)
            os.close(self._readable)

    def _push(self, entry: _Entry) -> None:
        with self._changed:
            if not self._closed:
                heapq.heappush(self._waiting, entry)
                self._changed.notify()

    def _next(self) -> _Entry | None:
        with self._changed:
            while not self._closed:
                left = self._waiting[0][0] - self._clock() if self._waiting else None
                if left is not None and left <= 0:
                    return heapq.heappop(self._waiting)
                self._changed.wait(left)
        return None

    def _work(self) -> None:
        while (entry := self._next()) is not None:
            _, _, number, operation = entry
            if operation is not None:
                try:
                    outcome = self._store.carry_out(operation)
                except Exception as error:  # of the library: nothing is known of the operation
                    outcome = StoreUnavailable(type(error).__name__)
                self._ended.append((number, outcome))
            self.notify()
