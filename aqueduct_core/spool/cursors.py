"""What the owner keeps in the catalog: the cursors, and the segments that were closed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.catalog import Catalog
from aqueduct_core.spool.format.durable import Durable
from aqueduct_core.spool.health import Health
from aqueduct_core.spool.losses import offset_ahead
from aqueduct_core.spool.retention import Cursors, LogPositions, check_reads, lowered, raised
from aqueduct_core.spool.segments import Segments
from aqueduct_core.spool.writer import ActiveSegment

log = logging.getLogger(__name__)

Note = Callable[[Durable, Cursors], None]
"""Note what is durable, and which cursors there are, where it outlives the catalog."""


class CursorStore:
    """Cursors and closed segments; used by the owner's thread.

    Holds: no commit has a cursor fall back, only `lower` does. A segment that finds no space in the
    catalog is entered later: until then it is read anew at an opening, and nothing is lost.
    """

    def __init__(
        self,
        catalog: Catalog,
        health: Health,
        segments: Segments,
        cursors: dict[str, list[int | None]],
        newest: int,
        note: Note,
    ) -> None:
        self._catalog = catalog
        self._health = health
        self._segments = segments
        self._cursors = cursors
        self._unsaved = False
        self._new = False
        self._waiting: list[ActiveSegment] = []
        self._state: dict[str, Any] | None = None
        self._newest = newest
        self._note = note

    @property
    def positions(self) -> dict[str, list[int | None]]:
        return {name: list(ends) for name, ends in self._cursors.items()}

    @property
    def newest(self) -> int:
        """The newest segment that holds something durable."""
        return self._newest

    def commit(self, cursor: str, ends: LogPositions, group: int) -> None:
        """
        Raises:
            DataLoss: OFFSET_AHEAD.
            InvalidOption: BAD_VALUE for other partitions than the cursor reads.
            SpoolFailed: FULL, IO.
        """
        if len(ends) != self._segments.partitions:
            raise ValueError(f"{len(ends)} ends for {self._segments.partitions} partitions")
        check_reads(cursor, [end is not None for end in ends], self._cursors.get(cursor))
        for partition, (asked, end) in enumerate(zip(ends, self._segments.ends, strict=True)):
            if asked is not None and asked > end:
                raise offset_ahead(self._segments.directory, partition, asked, end)
        position = raised(self._cursors.get(cursor), ends)
        if position == self._cursors.get(cursor) and not self._unsaved:
            return
        self._new = self._new or cursor not in self._cursors
        self._cursors[cursor] = position
        self._unsaved = True
        if self._new:
            # first, and not only in the catalog: should that be lost, a cursor that nobody knows of
            # would hold nothing back
            self.note(group)
            self._new = False
        with self._health.guard():
            self._catalog.save(self.durable(group), cursors=self._cursors)
        self._unsaved = False

    def enter_cursor(self, cursor: str, reads: Sequence[bool], group: int) -> None:
        """
        Raises:
            InvalidOption: BAD_VALUE for other partitions than the cursor reads.
            SpoolFailed: FULL, IO.
        """
        if len(reads) != self._segments.partitions:
            raise ValueError(f"{len(reads)} partitions of {self._segments.partitions}")
        old = self._cursors.get(cursor)
        check_reads(cursor, reads, old)
        starts = zip(self._segments.starts, reads, strict=True)
        self.commit(cursor, old or [at if read else None for at, read in starts], group)

    def lower(self, cursor: str, ends: LogPositions, group: int) -> None:
        """
        Raises:
            KeyError: there is no such cursor.
            SpoolFailed: FULL, IO.
        """
        position = lowered(self._cursors[cursor], ends)
        if position == self._cursors[cursor]:
            return
        self._cursors[cursor] = position
        with self._health.guard():
            self._catalog.save(self.durable(group), cursors=self._cursors)

    def drop(self, cursor: str, group: int) -> None:
        """
        Raises:
            SpoolFailed: FULL when it could not be noted (it is forgotten until a crash); IO.
        """
        if self._cursors.pop(cursor, None) is None:
            return
        with self._health.guard():
            self._catalog.drop_cursor(cursor)
        try:
            self.note(group)
        except SpoolFailed as error:
            if error.subclass != "FULL":
                raise
            # without the catalog it would come back, and hold back more than it has to
            log.warning("no space to note anywhere but in the catalog that cursor %r went", cursor)

    def note(self, group: int) -> None:
        """Note what is durable, and the cursors, where it outlives the catalog.

        Raises:
            SpoolFailed: FULL, IO.
        """
        with self._health.noting():
            self._note(self.durable(group), self._cursors)

    def close_segments(self, closed: Sequence[ActiveSegment], state: dict[str, Any] | None) -> None:
        """Segments that are closed and durable; ``state`` is that after the last of them."""
        if not closed:
            return
        self._state = state
        for active in closed:
            active.segment.sealed = time.time()
            active.close()
            self._waiting.append(active)

    def save_segments(self, group: int, newest: int) -> None:
        """Note closed segments and the newest one that holds something durable.

        Raises:
            SpoolFailed: IO.
        """
        if newest == self._newest and not self._waiting:
            return
        self._newest = newest
        segments = [active.segment for active in self._waiting]
        try:
            with self._health.guard():
                self._catalog.save(self.durable(group), segments=segments, state=self._state)
        except SpoolFailed as error:
            if error.subclass != "FULL":
                raise
            log.warning("no space to enter %d closed segments in the catalog", len(segments))
            return
        for segment in segments:
            self._segments.touch(segment)
        self._waiting.clear()

    def remove(self, number: int) -> None:
        """A segment was unlinked.

        Raises:
            SpoolFailed: IO.
        """
        try:
            with self._health.guard():
                self._catalog.drop_segment(number)
        except SpoolFailed as error:
            if error.subclass != "FULL":
                raise
            # the next opening drops it: the file is gone
            log.warning("no space to take segment %d out of the catalog", number)

    def durable(self, group: int) -> Durable:
        """What is durable once this group is."""
        stamp = next(
            (each.stamp for each in self._segments.segments if each.number == self._newest), ""
        )
        return Durable(self._newest, group, tuple(self._segments.ends), stamp)
