"""How the ranges of a batch become tasks: pure functions.

`split` decides by bounds and sizes, once: both may be others when the batch is planned again, so
its cuts are kept in the offset, and `cut` gives the same pieces at the same places from then on. A
sink that knows rows by task and position sees the same ones when a batch is repeated.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import ceil

from aqueduct_spark.model.offsets import Cuts, DataRange
from aqueduct_spark.options.read_parts import SplitOptions
from aqueduct_spark.planning.ranges import SizeIndex, offset_of, size_of

MAX_PIECES = 100_000
"""Tasks of one read: each is an object in the driver, and Spark takes a while for each. Where the
bounds ask for more, pieces are larger than they say."""

MAX_KEPT = 10_000
"""Tasks of one micro-batch, whose cuts are written to the checkpoint: some 60 KB."""

LogKey = tuple[int, int]
"""The number of an intake and of one of its logs."""


def split(
    ranges: Sequence[DataRange],
    bounds: SplitOptions,
    sizes: Mapping[LogKey, SizeIndex],
    most: int = MAX_PIECES,
) -> list[DataRange]:
    """The pieces of the ranges, in their order; together they hold each row once.

    ``sizes`` has the index of each range from its first row on; where it has none, rows alone
    count. First the bytes of a range are shared out evenly so that no piece has more than
    ``max_bytes``, then rows so that none has more than ``max_records``. When there are fewer than
    ``min_partitions`` pieces, the largest are split further, down to one row. There are no more
    than ``most``, or one for each range.
    """
    pieces: list[DataRange] = []
    for rows in ranges:
        index = sizes.get((rows.intake, rows.partition))
        for part in _by_bytes(rows, bounds.max_bytes, index, most):
            pieces += _evenly(part, ceil(_count(part) / (bounds.max_records or _count(part))), most)
            if len(pieces) > most:
                return _at_least(ranges, most)
    if bounds.min_partitions is not None and len(pieces) < bounds.min_partitions:
        return _at_least(pieces, min(bounds.min_partitions, most))
    return pieces


def cuts_of(pieces: Iterable[DataRange]) -> Cuts:
    """Where the pieces that `split` made begin, but for the first of each range."""
    cuts: dict[LogKey, list[int]] = {}
    for rows in pieces:
        cuts.setdefault((rows.intake, rows.partition), []).append(rows.first)
    return {key: begins[1:] for key, begins in cuts.items() if len(begins) > 1}


def cut(ranges: Iterable[DataRange], cuts: Cuts) -> list[DataRange]:
    """The pieces of the ranges, in their order. Cuts outside of a range do nothing."""
    return [p for rows in ranges for p in _cut(rows, cuts.get((rows.intake, rows.partition), ()))]


def _count(rows: DataRange) -> int:
    return rows.stop - rows.first


def _by_bytes(
    rows: DataRange, size: int | None, index: SizeIndex | None, most: int
) -> list[DataRange]:
    if size is None or not index:
        return [rows]
    total = size_of(index, rows.first, rows.stop)
    parts = min(ceil(total / size), _count(rows), most + 1)
    cuts = [offset_of(index, rows.first, total * k // parts) for k in range(1, parts)]
    return _cut(rows, cuts)


def _evenly(rows: DataRange, parts: int, most: int) -> list[DataRange]:
    parts = min(parts, _count(rows), most + 1)
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
    return [part for rows, n in zip(pieces, parts, strict=True) for part in _evenly(rows, n, n)]
