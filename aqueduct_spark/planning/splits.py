"""How the ranges of a batch become tasks: a pure function.

The same ranges, bounds and sizes give the same pieces, at the same offsets: a sink that knows rows
by task and position sees the same ones when a batch is repeated.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil

from aqueduct_spark.model.read_parts import SplitOptions
from aqueduct_spark.planning.marks import Marks, offset_of, size_of
from aqueduct_spark.planning.ranges import DataRange

MAX_PIECES = 100_000
"""Tasks of one batch: each is an object in the driver, and Spark takes a while for each. Where the
bounds ask for more, pieces are larger than they say."""

LogKey = tuple[int, int]
"""The number of an intake and of one of its logs."""


def split(
    ranges: Sequence[DataRange], bounds: SplitOptions, sizes: Mapping[LogKey, Marks]
) -> list[DataRange]:
    """The pieces of the ranges, in their order; together they hold each row once.

    ``sizes`` has the marks of each range from its first row on; where it has none, rows alone
    count. First the bytes of a range are shared out evenly so that no piece has more than
    ``max_bytes``, then rows so that none has more than ``max_records``. When there are fewer than
    ``min_partitions`` pieces, the largest are split further, down to one row.
    """
    pieces: list[DataRange] = []
    for rows in ranges:
        for part in _by_bytes(rows, bounds.max_bytes, sizes.get((rows.intake, rows.partition))):
            pieces += _evenly(part, ceil(_count(part) / (bounds.max_records or _count(part))))
            if len(pieces) > MAX_PIECES:
                return _at_least(ranges, MAX_PIECES)
    if bounds.min_partitions is not None and len(pieces) < bounds.min_partitions:
        return _at_least(pieces, min(bounds.min_partitions, MAX_PIECES))
    return pieces


def _count(rows: DataRange) -> int:
    return rows.stop - rows.first


def _by_bytes(rows: DataRange, most: int | None, marks: Marks | None) -> list[DataRange]:
    if most is None or not marks:
        return [rows]
    total = size_of(marks, rows.first, rows.stop)
    parts = min(ceil(total / most), _count(rows), MAX_PIECES + 1)
    cuts = [offset_of(marks, rows.first, total * k // parts) for k in range(1, parts)]
    return _cut(rows, cuts)


def _evenly(rows: DataRange, parts: int) -> list[DataRange]:
    parts = min(parts, _count(rows), MAX_PIECES + 1)
    return _cut(rows, [rows.first + _count(rows) * k // parts for k in range(1, parts)])


def _cut(rows: DataRange, cuts: Sequence[int]) -> list[DataRange]:
    """``rows`` cut at the offsets that lie inside of it."""
    edges = [rows.first, *sorted({c for c in cuts if rows.first < c < rows.stop}), rows.stop]
    return [
        replace(rows, first=first, stop=stop) for first, stop in pairwise(edges) if first < stop
    ]


def _at_least(pieces: Sequence[DataRange], wanted: int) -> list[DataRange]:
    """Each piece in as many even parts as its rows deserve, ``wanted`` in all where rows allow."""
    parts = [1] * len(pieces)
    # The piece with the most rows a part is split next; of equal ones the first.
    heap: list[tuple[float, int]] = [
        (-_count(rows), i) for i, rows in enumerate(pieces) if _count(rows) > 1
    ]
    heapq.heapify(heap)
    for _ in range(wanted - len(pieces)):
        if not heap:
            break
        _, i = heapq.heappop(heap)
        parts[i] += 1
        if parts[i] < _count(pieces[i]):
            heapq.heappush(heap, (-_count(pieces[i]) / parts[i], i))
    return [part for rows, n in zip(pieces, parts, strict=True) for part in _evenly(rows, n)]
