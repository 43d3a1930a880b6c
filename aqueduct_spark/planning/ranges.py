"""The rows between two offsets, and how many bytes they take: pure functions.

Sizes are what the index of a spool tells: pairs ``(offset, bytes)``, ascending. The rows from the
first offset that was asked about up to ``offset`` take that many stored bytes; the last pair is
that of the end. Between two of them rows count alike, so a size is exact at the offsets of the
index and an estimate elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from aqueduct_spark.model.offsets import DataRange, StreamOffset

SizeIndex: TypeAlias = Sequence[tuple[int, int]]


def data_ranges(
    start: StreamOffset, end: StreamOffset, first_logs: Mapping[int, int]
) -> list[DataRange]:
    """The ranges between two offsets, in the order of intake and partition: one for each log.

    ``first_logs`` says which log of a spool the first entry of ``to`` is of, by intake; 0 where it
    is left out. A spool that only ``end`` knows, that took the place of another one, or in which
    the query was reset has no rows in this batch: its entry is the starting point of the next one.
    """
    ranges: list[DataRange] = []
    for intake in sorted(end.spool):
        before, after = start.spool.get(intake), end.spool[intake]
        if before is None or not after.follows(before):
            continue
        base = first_logs.get(intake, 0)
        ranges += [
            DataRange(intake, after.id, after.at, base + index, first, stop)
            for index, (first, stop) in enumerate(zip(before.to, after.to, strict=True))
            if first < stop
        ]
    return ranges


def size_of(index: SizeIndex, first: int, stop: int) -> int:
    """Bytes of the rows from ``first``, where the index begins, to ``stop``."""
    at = bisect_left(index, stop, key=lambda entry: entry[0])
    if at == len(index):
        return index[-1][1] if index else 0
    low, below = index[at - 1] if at else (first, 0)
    high, above = index[at]
    if high <= low:
        return above
    return below + (above - below) * (stop - low) // (high - low)


def offset_of(index: SizeIndex, first: int, size: int) -> int:
    """The largest offset so that the rows from ``first``, where the index begins, up to it take at
    most ``size`` bytes."""
    at = bisect_left(index, size + 1, key=lambda entry: entry[1])
    low, below = index[at - 1] if at else (first, 0)
    if at == len(index):
        return low
    high, above = index[at]
    return low + (high - low) * (size - below) // (above - below)
