"""How many bytes the rows of a log take, as the index of a spool tells it: pure functions.

Marks are pairs ``(offset, bytes)``, ascending: the rows from the first offset that was asked about
up to ``offset`` take that many stored bytes. The last mark is that of the end. Between two marks
rows count alike, so a size is exact at marks and an estimate elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TypeAlias

Marks: TypeAlias = Sequence[tuple[int, int]]


def size_of(marks: Marks, first: int, stop: int) -> int:
    """Bytes of the rows from ``first``, where the marks begin, to ``stop``."""
    at = bisect_left(marks, stop, key=lambda mark: mark[0])
    if at == len(marks):
        return marks[-1][1] if marks else 0
    low, below = marks[at - 1] if at else (first, 0)
    high, above = marks[at]
    if high <= low:
        return above
    return below + (above - below) * (stop - low) // (high - low)


def offset_of(marks: Marks, first: int, size: int) -> int:
    """The largest offset so that the rows from ``first``, where the marks begin, up to it take at
    most ``size`` bytes."""
    at = bisect_left(marks, size + 1, key=lambda mark: mark[1])
    low, below = marks[at - 1] if at else (first, 0)
    if at == len(marks):
        return low
    high, above = marks[at]
    return low + (high - low) * (size - below) // (above - below)
