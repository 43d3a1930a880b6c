"""Deadlines by key: a heap whose stale entries are skipped when they surface; and a queue of those
that all come after the same delay."""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK = 64
"""Stale heap entries that are tolerated on top of one for each live key."""


class Timers(Generic[K]):
    """At most one deadline a key. Times are monotonic seconds."""

    __slots__ = ("_due", "_heap", "_serial")

    def __init__(self) -> None:
        self._due: dict[K, float] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._serial = 0

    def __contains__(self, key: K) -> bool:
        return key in self._due

    @property
    def next(self) -> float | None:
        """The earliest deadline; None when there is none."""
        heap = self._heap
        while heap and self._due.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def set(self, key: K, when: float) -> None:
        """Give ``key`` the deadline ``when``, in place of any other."""
        if self._due.get(key) == when:
            return
        self._due[key] = when
        # the serial keeps keys out of comparisons and equal deadlines in order
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, key))
        self._tidy()

    def _tidy(self) -> None:
        """Drop stale entries before they are most of the heap."""
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._heap = [entry for entry in self._heap if self._due.get(entry[2]) == entry[0]]
            heapq.heapify(self._heap)

    def sooner(self, key: K, when: float) -> None:
        """As ``set``, unless the key has an earlier deadline."""
        due = self._due.get(key)
        if due is None or when < due:
            self.set(key, when)

    def cancel(self, key: K) -> None:
        if self._due.pop(key, None) is not None:
            self._tidy()

    def clear(self) -> None:
        self._due.clear()
        self._heap.clear()

    def pop(self, now: float) -> K | None:
        """Take out one key whose deadline is at or before ``now``, the earliest first."""
        when = self.next
        if when is None or when > now:
            return None
        key = heapq.heappop(self._heap)[2]
        del self._due[key]
        self._tidy()
        return key


class DelayQueue(Generic[K]):
    """Keys that are due a fixed delay after they came, so in the order in which they came.

    No heap, and no object for each but its time: for what thousands of channels have to do shortly,
    again and again. Times do not go back; one that does is due with those before it.
    """

    __slots__ = ("_delay", "_due")

    def __init__(self, delay: float) -> None:
        self._delay = delay
        # a plain dictionary looks for its first key behind all that were taken out before
        self._due: OrderedDict[K, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._due)

    @property
    def next(self) -> float | None:
        """The earliest deadline; None when there is none."""
        for when in self._due.values():
            return when
        return None

    def add(self, key: K, now: float) -> None:
        """``key`` is due a delay from now, unless it is due already."""
        if key not in self._due:
            self._due[key] = now + self._delay

    def cancel(self, key: K) -> None:
        self._due.pop(key, None)

    def clear(self) -> None:
        self._due.clear()

    def take(self, now: float) -> list[K]:
        """Take out all that are due at ``now``, in their order."""
        out: list[K] = []
        for key, when in self._due.items():
            if when > now:
                break
            out.append(key)
        for key in out:
            del self._due[key]
        return out
