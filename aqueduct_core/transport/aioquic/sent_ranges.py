"""Ranges of the bytes that a stream has to send, or that were acknowledged behind a hole.

aioquic's own set finds a place by walking over all ranges. A peer decides how many there are, by
what it acknowledges, so here a place is found by bisection.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from aioquic.quic.rangeset import RangeSet


class SentRanges(RangeSet):
    """A ``RangeSet`` of aioquic: disjoint ranges that do not touch, in their order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []

    def add(self, start: int, stop: int | None = None) -> None:
        starts, stops = self._starts, self._stops
        if stop is None:
            stop = start + 1
        assert stop > start
        if not stops or start > stops[-1]:
            starts.append(start)
            stops.append(stop)
            return
        low = bisect_left(stops, start)
        high = bisect_right(starts, stop)
        if low < high:
            start = min(start, starts[low])
            stop = max(stop, stops[high - 1])
        starts[low:high] = [start]
        stops[low:high] = [stop]

    def subtract(self, start: int, stop: int) -> None:
        assert stop > start
        starts, stops = self._starts, self._stops
        if starts and starts[0] == start and stop < stops[0]:
            starts[0] = stop  # as what is sent leaves what waits
            return
        low = bisect_right(stops, start)
        high = bisect_left(starts, stop)
        if low >= high:
            return
        left = [starts[low]] if starts[low] < start else []
        right = [stops[high - 1]] if stops[high - 1] > stop else []
        starts[low:high] = left + [stop] * len(right)
        stops[low:high] = [start] * len(left) + right

    def shift(self) -> range:
        return range(self._starts.pop(0), self._stops.pop(0))

    @property
    def first(self) -> tuple[int, int]:
        """Start and stop of the lowest range; there must be one."""
        return self._starts[0], self._stops[0]

    def bounds(self) -> range:
        return range(self._starts[0], self._stops[-1])

    def __contains__(self, number: Any) -> bool:
        index = bisect_right(self._starts, number) - 1
        return index >= 0 and number < self._stops[index]

    def __getitem__(self, index: Any) -> Any:
        return range(self._starts[index], self._stops[index])

    def __iter__(self) -> Iterator[range]:
        return map(range, self._starts, self._stops)

    def __len__(self) -> int:
        return len(self._starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RangeSet) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SentRanges({list(self)!r})"
