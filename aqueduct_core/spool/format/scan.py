"""Reading a segment file, or its head, when nothing is known of it but the file."""

from __future__ import annotations

import mmap
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aqueduct_core.spool.format.record import Damaged, Record, verify
from aqueduct_core.spool.format.segment import map_file

_CONTINUATION = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class Scan:
    """All that a segment file holds: every valid record, and every stretch that is none.

    ``damage`` are the (start, stop) positions that belong to no valid record.
    """

    number: int
    size: int
    records: list[Record] = field(default_factory=list)
    damage: list[tuple[int, int]] = field(default_factory=list)

    @property
    def stamp(self) -> str:
        """Of the records; empty where there are none, or none with a stamp."""
        return self.records[0].stamp if self.records else ""

    @property
    def head(self) -> Record | None:
        """The record that starts the segment; None when it is damaged."""
        return self.records[0] if self.records and self.records[0].state is not None else None

    @property
    def rows(self) -> list[Record]:
        return [record for record in self.records if record.state is None]

    @property
    def newest(self) -> int:
        """The newest group that has a record here; 0 when there is none."""
        return max((record.group for record in self.records), default=0)

    def void(self) -> Scan:
        """The scan of a file that is not to be believed: all of it is damaged."""
        return Scan(self.number, self.size, [], [(0, self.size)])

    def until(self, group: int) -> Scan:
        """The scan without the groups after this one."""
        records = [record for record in self.records if record.group <= group]
        return Scan(self.number, self.size, records, self.damage)

    def before(self, position: int) -> Scan:
        """The scan of the file cut off at a position."""
        return Scan(
            self.number,
            position,
            [record for record in self.records if record.end <= position],
            [stretch for stretch in self.damage if stretch[0] < position],
        )


def scan(path: Path, number: int, size: int | None = None) -> Scan:
    """Verify a segment file from end to end, or its first ``size`` bytes.

    After damage the scan goes on at the next valid record. A record states where it was written, so
    the copy of a record inside a payload is not taken for one.
    """
    size = path.stat().st_size if size is None else size
    if not size:
        return Scan(number, 0)
    data = map_file(path, size)
    found = Scan(number, len(data))
    view = memoryview(data)
    at = next_record(data, view, 0, number)
    if at == len(view) or verify(view, at, number).state is None:
        found.damage.append((0, at))
    while at < len(view):
        try:
            record = verify(view, at, number)
            if found.records and record.stamp != found.stamp:
                raise Damaged("the record is of another file")
        except Damaged:
            start, at = at, next_record(data, view, at + 8, number)
            found.damage.append((start, at))
            continue
        if record.state is not None and zlib.crc32(view[:at]) != record.state["preamble"]:
            # the schema message, which only foreign readers need
            found.damage.append((0, at))
        found.records.append(record)
        at = record.end
    return found


def next_record(data: mmap.mmap, view: memoryview, at: int, number: int) -> int:
    """The position of the next valid record from ``at`` on; the end when there is none."""
    while (at := data.find(_CONTINUATION, at)) >= 0:
        if at % 8 == 0:
            try:
                verify(view, at, number)
            except Damaged:
                pass
            else:
                return at
        at += 1
    return len(view)


def read_head(path: Path, number: int, at: int) -> dict[str, Any] | None:
    """The state in the head of a segment, which starts at that position; None when it is damaged.

    Raises:
        OSError: the disk failed.
    """
    if path.stat().st_size <= at:
        return None
    try:
        return verify(memoryview(map_file(path)), at, number).state
    except Damaged:
        return None
