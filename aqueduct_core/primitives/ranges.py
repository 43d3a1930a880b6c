"""A set of whole numbers, kept as sorted, disjoint, non-adjacent half-open ranges.

No operation walks a range number by number, so a range that a peer names costs the same
whatever its length (AQ-ACK-13).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Range = tuple[int, int]

Numbers = NDArray[np.int64]
"""Of messages in a row."""

_NONE: list[int] = []
"""Of every empty set, and never changed: there are many, and most stay empty."""


class RangeSet:
    """Ranges ``[first, stop)``; ``len`` is the number of ranges, ``count`` that of numbers."""

    __slots__ = ("_starts", "_stops", "count")

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._starts = self._stops = _NONE
        self.count = 0
        for first, stop in ranges:
            self.add(first, stop)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Range]:
        return zip(self._starts, self._stops, strict=True)

    def __contains__(self, number: int) -> bool:
        i = bisect_right(self._starts, number) - 1
        return i >= 0 and number < self._stops[i]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._starts == other._starts and self._stops == other._stops

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"RangeSet({list(self)!r})"

    @property
    def first(self) -> int:
        """The lowest number; 0 when empty."""
        return self._starts[0] if self._starts else 0

    @property
    def stop(self) -> int:
        """One above the highest number; 0 when empty."""
        return self._stops[-1] if self._stops else 0

    def add(self, first: int, stop: int) -> list[Range]:
        """Add ``[first, stop)``; the pieces of it that are new."""
        if first >= stop:
            return []
        starts, stops = self._starts, self._stops
        if not stops:
            self._starts, self._stops = [first], [stop]
            self.count = stop - first
            return [(first, stop)]
        if first > stops[-1]:
            starts.append(first)
            stops.append(stop)
            self.count += stop - first
            return [(first, stop)]
        if first == stops[-1]:
            stops[-1] = stop
            self.count += stop - first
            return [(first, stop)]
        # ranges lo..hi-1 touch or overlap the new one
        lo = bisect_left(stops, first)
        hi = bisect_right(starts, stop)
        new: list[Range] = []
        position = first
        for i in range(lo, hi):
            if starts[i] > position:
                new.append((position, starts[i]))
            position = max(position, stops[i])
        if position < stop:
            new.append((position, stop))
        if lo < hi:
            first = min(first, starts[lo])
            stop = max(stop, stops[hi - 1])
        starts[lo:hi] = [first]
        stops[lo:hi] = [stop]
        self.count += sum(b - a for a, b in new)
        return new

    def remove(self, first: int, stop: int) -> list[Range]:
        """Take ``[first, stop)`` out; the pieces that were there."""
        if first >= stop:
            return []
        starts, stops = self._starts, self._stops
        lo = bisect_right(stops, first)
        hi = bisect_left(starts, stop)
        if lo >= hi:
            return []
        gone = [(max(first, starts[i]), min(stop, stops[i])) for i in range(lo, hi)]
        kept_starts: list[int] = []
        kept_stops: list[int] = []
        if starts[lo] < first:
            kept_starts.append(starts[lo])
            kept_stops.append(first)
        if stops[hi - 1] > stop:
            kept_starts.append(stop)
            kept_stops.append(stops[hi - 1])
        starts[lo:hi] = kept_starts
        stops[lo:hi] = kept_stops
        self.count -= sum(b - a for a, b in gone)
        return gone

    def clear(self) -> None:
        self._starts = self._stops = _NONE
        self.count = 0

    def covers(self, first: int, stop: int) -> bool:
        """Whether every number of ``[first, stop)`` is in the set; true for an empty range."""
        if first >= stop:
            return True
        i = bisect_right(self._starts, first) - 1
        return i >= 0 and stop <= self._stops[i]

    def overlaps(self, first: int, stop: int) -> bool:
        """Whether any number of ``[first, stop)`` is in the set."""
        if first >= stop:
            return False
        i = bisect_right(self._stops, first)
        return i < len(self._starts) and self._starts[i] < stop

    def within(self, first: int, stop: int) -> list[Range]:
        """The pieces of ``[first, stop)`` that are in the set."""
        if first >= stop:
            return []
        lo = bisect_right(self._stops, first)
        hi = bisect_left(self._starts, stop)
        return [(max(first, self._starts[i]), min(stop, self._stops[i])) for i in range(lo, hi)]

    def missing(self, first: int, stop: int) -> list[Range]:
        """The pieces of ``[first, stop)`` that are not in the set."""
        out: list[Range] = []
        position = first
        for a, b in self.within(first, stop):
            if a > position:
                out.append((position, a))
            position = b
        if position < stop:
            out.append((position, stop))
        return out

    def lowest_missing(self, start: int = 0) -> int:
        """The lowest number at or above ``start`` that is not in the set."""
        i = bisect_right(self._starts, start) - 1
        if i >= 0 and start < self._stops[i]:
            return self._stops[i]
        return start


def stretches(numbers: Numbers) -> Iterator[Range]:
    """Index ranges of ``numbers`` in each of which they rise by one."""
    edges = np.flatnonzero(np.diff(numbers) != 1) + 1
    begins = [0, *edges.tolist()]
    yield from zip(begins, [*begins[1:], len(numbers)], strict=True)
