"""Every checksum of a segment, and which rows are not to be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.format.record import Record
from aqueduct_core.spool.format.scan import scan
from aqueduct_core.spool.format.segment import Segment


class Rows(NamedTuple):
    """Offsets ``[start, end)`` of a partition."""

    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """A checked segment: readable records and rows, the damaged (start, stop) bytes, and the rows
    that were in these."""

    segment: Segment
    records: int
    rows: int
    damage: list[tuple[int, int]]
    lost: list[Rows]


def check(segment: Segment) -> SegmentCheck:
    """Verify a segment from end to end.

    Raises:
        SpoolFailed: IO.
    """
    try:
        found = scan(segment.path, segment.number, segment.size)
    except OSError as error:
        raise SpoolFailed(
            "IO", f"{segment.path} cannot be read: {error}", "Check the disk"
        ) from error
    if segment.stamp and found.records and found.stamp != segment.stamp:
        # another file of that number: right in itself, and not what was stored
        found = found.void()
    rows = sum(record.stop - record.first for record in found.rows)
    lost = [
        hole
        for partition in range(len(segment.ends))
        for hole in _holes(segment, partition, found.rows)
    ]
    return SegmentCheck(segment, len(found.records), rows, found.damage, lost)


def missing(segments: Sequence[Segment], ends: Sequence[int]) -> list[Rows]:
    """Rows between the first segment and the ends that no segment has."""
    edges = [(older.ends, newer.starts) for older, newer in pairwise(segments)]
    if segments:
        edges.append((segments[-1].ends, list(ends)))
    return [
        Rows(partition, start, end)
        for stops, starts in edges
        for partition, (start, end) in enumerate(zip(stops, starts, strict=True))
        if start < end
    ]


def _holes(segment: Segment, partition: int, records: Sequence[Record]) -> list[Rows]:
    holes = []
    at = segment.starts[partition]
    for record in records:
        if record.partition == partition and record.stop > record.first:
            if record.first > at:
                holes.append(Rows(partition, at, record.first))
            at = record.stop
    if at < segment.ends[partition]:
        holes.append(Rows(partition, at, segment.ends[partition]))
    return holes
