"""Looking into a spool without owning it."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.catalog import CATALOG, Catalog, KnownSegment
from aqueduct_core.spool.checks import Rows, SegmentCheck, check, missing
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.scan import Scan, scan
from aqueduct_core.spool.format.segment import Segment, segment_path
from aqueduct_core.spool.health import io_failed
from aqueduct_core.spool.identity import load_identity
from aqueduct_core.spool.opening import find_identity, is_of, load_index
from aqueduct_core.spool.readable import Readable
from aqueduct_core.spool.recovery import recover
from aqueduct_core.spool.segments import Segments
from aqueduct_core.spool.skips import load_skips

TRIES = 5
"""Times that the files are looked at anew because their owner trimmed a segment meanwhile."""


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
            raise io_failed(directory, str(error)) from error
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
        entered: dict[int, Segment] = {}
        try:
            self._catalog = Catalog.look(self._directory / CATALOG, identity.partitions)
            if is_of(self._catalog.known().owner, identity):
                known, cursors = self._catalog.known(), self._catalog.cursors()
                entered = self._catalog.segments(
                    lambda number: segment_path(self._directory, number)
                )
            else:
                self.close()
        except sqlite3.Error:
            # everything can be had from the segments
            self.close()
            known, cursors, entered = KnownSegment(), {}, {}
        found = recover(self._directory, identity, known, entered, _read, time.time())
        if not known.durable.segment:
            cursors = found.replay.cursors(identity.cursors) | cursors
        self.cursors = cursors
        self._stored = Segments(
            self._directory,
            Codec(identity.schema),
            identity.partitions,
            lambda segment: load_index(segment, self._catalog, identity.partitions),
            self._in_sight,
        )
        self._stored.skip(load_skips(self._directory, identity.id))
        for segment in found.segments:
            self._stored.add(segment)
        self._stored.publish(found.ends)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first."""
        return self._stored.segments

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

    def missing(self) -> list[Rows]:
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
