"""Looking into a spool without owning it, and checking what it holds."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.catalog import CATALOG, Catalog, KnownSegment, load_index
from aqueduct_core.spool.format.record import Codec, Record
from aqueduct_core.spool.format.scan import Scan, scan
from aqueduct_core.spool.format.segment import Segment, segment_path
from aqueduct_core.spool.health import failed_by
from aqueduct_core.spool.identity import find_identity, load_identity
from aqueduct_core.spool.losses import OffsetRange
from aqueduct_core.spool.readable import Readable
from aqueduct_core.spool.recovery import recover
from aqueduct_core.spool.segments import Segments
from aqueduct_core.spool.skips import load_skips

TRIES = 5
"""Times that the files are looked at anew because their owner trimmed a segment meanwhile."""


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """A checked segment: readable records and rows, the damaged (start, stop) bytes, and the rows
    that were in these."""

    segment: Segment
    records: int
    rows: int
    damage: list[tuple[int, int]]
    lost: list[OffsetRange]


class SpoolReader(Readable):
    """A spool as it is at this moment; takes no lock and changes nothing.

    Holds what was written before it was opened. That is synced first, so every row it shows is
    durable, also one that a running owner has not reported yet. What comes later, or is trimmed,
    is seen by a new reader.
    """

    def __init__(self, directory: Path) -> None:
        """
        Raises:
            SpoolFailed: IO when there is no spool, VERSION, CORRUPT.
        """
        self._directory = directory
        self._catalog: Catalog | None = None
        try:
            for left in reversed(range(TRIES)):
                try:
                    self._open()
                    break
                except FileNotFoundError:
                    if not left:
                        raise
                    self.close()
        except (OSError, sqlite3.Error) as error:
            self.close()
            raise failed_by(directory, error) from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        identity = find_identity(self._directory)
        if identity is None:
            raise FileNotFoundError(2, "No readable spool.json here", str(self._directory))
        self._identity = identity
        known = KnownSegment()
        cursors: dict[str, list[int | None]] = {}
        cataloged: dict[int, Segment] = {}
        try:
            self._catalog = Catalog.look(self._directory / CATALOG, identity.partitions)
            if identity.has_written(self._catalog.known().owner):
                known, cursors = self._catalog.known(), self._catalog.cursors()
                cataloged = self._catalog.segments(
                    lambda number: segment_path(self._directory, number)
                )
            else:
                self.close()
        except sqlite3.Error:
            # everything can be had from the segments
            self.close()
            known, cursors, cataloged = KnownSegment(), {}, {}
        found = recover(self._directory, identity, known, cataloged, _read, time.time())
        if not known.durable.segment:
            cursors = found.replay.cursors(identity.cursors) | cursors
        self.cursors = cursors
        self._segments = Segments(
            self._directory,
            Codec(identity.schema),
            identity.partitions,
            lambda segment: load_index(segment, self._catalog, identity.partitions),
            self._in_sight,
        )
        self._segments.skip(load_skips(self._directory, identity.id))
        for segment in found.segments:
            self._segments.add(segment)
        self._segments.publish(found.ends)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def catalog_readable(self) -> bool:
        """Whether it could be used; else everything was had from the segments, as the next owner
        will do."""
        return self._catalog is not None

    def verify(self) -> Iterator[SegmentCheck]:
        """Check every record of every segment, one segment a step.

        Raises:
            SpoolFailed: IO.
        """
        return map(check, self.segments)

    def missing(self) -> list[OffsetRange]:
        """Rows between the starts and the ends whose segment is not there."""
        return missing(self.segments, self.ends())

    def _in_sight(self) -> bool:
        """Whether the directory is still the one of this spool, as its files say."""
        try:
            found = load_identity(self._directory)
        except (OSError, SpoolFailed):
            return False
        return found is not None and found.id == self.id

    def close(self) -> None:
        if self._catalog is not None:
            self._catalog.close()
            self._catalog = None


def _read(path: Path, number: int) -> Scan:
    """Scan a segment as it is now, and make that durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        os.fdatasync(fd)
    finally:
        os.close(fd)
    return scan(path, number, size)


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


def missing(segments: Sequence[Segment], ends: Sequence[int]) -> list[OffsetRange]:
    """Rows between the first segment and the ends that no segment has."""
    edges = [(older.ends, newer.starts) for older, newer in pairwise(segments)]
    if segments:
        edges.append((segments[-1].ends, list(ends)))
    return [
        OffsetRange(partition, start, end)
        for stops, starts in edges
        for partition, (start, end) in enumerate(zip(stops, starts, strict=True))
        if start < end
    ]


def _holes(segment: Segment, partition: int, records: Sequence[Record]) -> list[OffsetRange]:
    holes = []
    at = segment.starts[partition]
    for record in records:
        if record.partition == partition and record.stop > record.first:
            if record.first > at:
                holes.append(OffsetRange(partition, at, record.first))
            at = record.stop
    if at < segment.ends[partition]:
        holes.append(OffsetRange(partition, at, segment.ends[partition]))
    return holes
