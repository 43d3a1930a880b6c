"""From a directory as it was left, however it was left, to a log that can be carried on."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.spool.catalog import KnownSegment
from aqueduct_core.spool.format.durable import Durable, padded, state_with_partitions
from aqueduct_core.spool.format.record import Codec, Record
from aqueduct_core.spool.format.scan import Scan, read_head
from aqueduct_core.spool.format.segment import Segment, segment_numbers, segment_path
from aqueduct_core.spool.identity import SpoolIdentity
from aqueduct_core.spool.losses import OffsetRange, unreadable_segment
from aqueduct_core.spool.retention import LogPositions, lowest, raised
from aqueduct_core.spool.tail import find_tail

log = logging.getLogger(__name__)

Read = Callable[[Path, int], Scan]

MAX_UNREPORTED = 1 << 22
"""Added to the ends that were noted last when the segment behind them is given up and the machine
was started again meanwhile: more rows than a segment holds, and no more of them were reported."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The newest readable state, and the records after it that hold marks or sums, in order."""

    state: dict[str, Any] | None
    records: list[Record]

    def cursors(self, known: Mapping[str, LogPositions] | None) -> dict[str, list[int | None]]:
        """The ``known`` cursors of an identity, as far as the state knows that they went on; those
        of the state where it knows of none."""
        found = dict(self.state["cursors"]) if self.state else {}
        if known is None:
            return found
        return {
            name: raised(position, found.get(name, position)) for name, position in known.items()
        }


@dataclass(frozen=True, slots=True)
class Recovered:
    """What is in a directory. All ``segments`` are closed; ``scanned`` are those read anew.

    ``cut`` are files with the size to which they are to be cut, 0 for those to be unlinked: what
    is behind was never reported. ``gone`` are segments that the catalog need not name any more, as
    they are not there. ``ends`` and ``group`` are those of what is kept.
    """

    segments: list[Segment]
    scanned: list[Segment]
    cut: list[tuple[Path, int]]
    gone: list[int]
    ends: list[int]
    group: int
    next_segment: int
    replay: Replay

    def rows_of(self, number: int, cursors: Iterable[LogPositions]) -> list[OffsetRange]:
        """What was given up with a segment: the rows between those before and behind it. Where
        there are none before it they begin with what a cursor has not passed."""
        older = [each for each in self.segments if each.number < number]
        newer = [each for each in self.segments if each.number > number]
        starts = older[-1].ends if older else lowest(cursors, len(self.ends))
        stops = newer[0].starts if newer else self.ends
        rows = zip(starts, stops, strict=True)
        return [
            OffsetRange(partition, start, stop)
            for partition, (start, stop) in enumerate(rows)
            if start < stop
        ]


def recover(
    directory: Path,
    identity: SpoolIdentity,
    known: KnownSegment,
    cataloged: dict[int, Segment],
    read: Read,
    now: float,
    lost: int | None = None,
) -> Recovered:
    """Read what the catalog does not know, and judge it. Changes nothing on the disk.

    Args:
        known: what the catalog says; nothing when there is none to be believed.
        cataloged: the closed segments of the catalog.
        read: scans one segment file.
        lost: the number of a segment that was given up; what is in its place does not count.

    Raises:
        InvalidOption: CONFLICT when that segment need not be given up.
        SpoolFailed: CORRUPT when the newest segment is missing, or one belongs to another spool.
        OSError: the disk failed.
    """
    durable = max(known.durable, identity.durable, key=lambda each: each.order)
    numbers = segment_numbers(directory)
    preamble = len(Codec(identity.schema).preamble)
    stamps = expected_stamps(directory, numbers, cataloged, durable, preamble)
    work = _Recovery(directory, identity, cataloged, durable, stamps, read)
    newest = durable.segment
    if lost is not None:
        work.check_lost(lost, numbers)
        numbers = [number for number in numbers if number != lost]
    if newest != lost and newest and newest not in numbers and newest not in cataloged:
        newest = work.witness([number for number in numbers if number > newest])
    work.read(numbers)
    group = max(durable.group, work.durable_group)
    before_scans = group <= work.settled or (
        group == durable.group and durable.segment < min(work.scans, default=0)
    )
    tail = find_tail(list(work.scans.values()), group, before_scans)
    cut = work.cut(tail.cut, newest)
    segments, ends = work.fit(durable)
    if newest == lost and not (
        identity.durable[:2] == durable[:2] and identity.durable.of_this_boot
    ):
        ends = [end + MAX_UNREPORTED for end in ends]
    scanned = [segment for segment in segments if segment.number in work.rescanned]
    for segment in scanned:
        before = cataloged.get(segment.number)
        segment.sealed = before.sealed if before else now
    gone = cataloged.keys() - work.segments.keys()
    if lost != durable.segment:
        # what the catalog says of the newest is all that tells where it ended
        gone -= {durable.segment}
    return Recovered(
        segments,
        scanned,
        cut,
        sorted(gone),
        ends,
        tail.group,
        max([durable.segment, *numbers, *cataloged], default=0) + 1,
        work.replay(known),
    )


class _Recovery:
    """Segments as they are read, oldest first.

    A scan is kept while a crash may have torn off its end. Once a later segment says that all its
    groups were durable, only the positions of its records are needed.
    """

    def __init__(
        self,
        directory: Path,
        identity: SpoolIdentity,
        cataloged: dict[int, Segment],
        durable: Durable,
        stamps: dict[int, str],
        read: Read,
    ) -> None:
        self._directory = directory
        self._identity = identity
        self._cataloged = cataloged
        self._durable = durable
        self._stamps = stamps
        self._read = read
        self.segments: dict[int, Segment] = {}
        self.scans: dict[int, Scan] = {}
        self.rescanned: set[int] = set()
        self.durable_group = 0
        self.settled = 0
        self._last_groups: dict[int, int] = {}

    def witness(self, newer: Sequence[int]) -> int:
        """The newest segment that was noted is missing: a later one whose head says which offsets
        were given out before it.

        Raises:
            SpoolFailed: CORRUPT when there is none.
        """
        for number in newer:
            if self._checked(number).head is not None:
                return number
        raise unknown_end(self._path(self._durable.segment), self._durable.segment, "is missing")

    def check_lost(self, number: int, there: Sequence[int]) -> None:
        """Whether an opening is refused for a segment.

        Raises:
            InvalidOption: CONFLICT when it is not.
        """
        try:
            if number in there:
                self._believed(number)
            elif 0 < number == self._durable.segment and number not in self._cataloged:
                self.witness([each for each in there if each > number])
        except SpoolFailed as error:
            if error.subclass == "CORRUPT":
                return
            raise
        raise InvalidOption(
            "CONFLICT",
            f"{self._path(number)} is not in the way: the spool can be opened",
            "Give up the rows that are named by reads, or by: aqueduct spool verify"
            f" {shlex.quote(str(self._directory))}",
        )

    def read(self, numbers: Sequence[int]) -> None:
        """Scan the segments that the catalog does not know as they are."""
        for number in numbers:
            before = self._cataloged.get(number)
            # the newest is always read: it holds the newest marks
            # what is behind the end of a closed segment was written by an owner that had lost its
            # lock
            known = before and number != numbers[-1]
            if before and known and self._path(number).stat().st_size >= before.size:
                self.segments[number] = before
            else:
                self._scan(number)

    def _scan(self, number: int) -> None:
        found = self._believed(number)
        self.rescanned.add(number)
        self.durable_group = max(
            [self.durable_group, *(record.durable for record in found.records)]
        )
        if found.head is not None:
            if self.scans:
                last = max(self.scans)
                self._last_groups[last] = found.head.group
                # what follows was written by an owner that had lost its lock
                self.scans[last] = self.scans[last].until(found.head.group)
            for older in list(self.scans):
                last_group = self._last_groups.get(older)
                if last_group is not None and last_group <= found.head.durable:
                    self.segments[older] = self._segment(self.scans.pop(older))
                    self.settled = last_group
        self.scans[number] = found

    def cut(self, at: tuple[int, int] | None, newest: int) -> list[tuple[Path, int]]:
        """Leave out what is after the cut, and segments at the end that hold no group.

        The ``newest`` segment that was noted stays: the next opening looks for it.
        """
        cut: list[tuple[Path, int]] = []
        if at is not None:
            last, position = at
            for number in [number for number in self.scans if number > last]:
                cut.append((self._path(number), 0))
                del self.scans[number]
            if position < self.scans[last].size:
                cut.append((self._path(last), position))
                self.scans[last] = self.scans[last].before(position)
        while self.scans:
            last = max(self.scans)
            found = self.scans[last]
            state_needed = found.head is not None and found.head.group and len(self._numbers) == 1
            if found.rows or found.damage or last <= newest or state_needed:
                break
            cut = [(path, size) for path, size in cut if path != self._path(last)]
            cut.append((self._path(last), 0))
            del self.scans[last]
        for number in list(self.scans):
            self.segments[number] = self._segment(self.scans[number])
        return cut

    def fit(self, durable: Durable) -> tuple[list[Segment], list[int]]:
        """Complete what damage hides from the neighbours and the catalog; the ends of all."""
        segments = [self.segments[number] for number in sorted(self.segments)]
        for older, newer in reversed(list(pairwise(segments))):
            if newer.number == older.number + 1 and older.number in self.rescanned:
                older.ends[:] = map(max, older.ends, newer.starts)
        for older, newer in pairwise(segments):
            newer.starts[:] = _known(newer.starts, older.ends)
        ends = list(durable.ends) or [0] * self._identity.partitions
        if segments:
            last = segments[-1]
            ends = [max(pair) for pair in zip(last.ends, ends, strict=True)]
            if last.number in self.rescanned and durable.segment <= last.number:
                last.ends[:] = ends
            segments[0].starts[:] = _known(segments[0].starts, segments[0].ends)
        return segments, ends

    def replay(self, known: KnownSegment) -> Replay:
        records: list[Record] = []
        state: dict[str, Any] | None = None
        for number in reversed(self._numbers):
            if known.state is not None and known.state_after >= number:
                state = known.state
                break
            found = self.scans.get(number) or self._believed(number)
            records += [each for each in reversed(found.rows) if each.marks or each.sums]
            if found.head is not None:
                state = found.head.state and state_with_partitions(
                    found.head.state, self._identity.partitions
                )
                break
        if state is None and self._numbers:
            log.warning("%s: no state is readable; repeats may be stored again", self._directory)
        records.reverse()
        return Replay(state, records)

    @property
    def _numbers(self) -> list[int]:
        return sorted(self.segments.keys() | self.scans.keys())

    def _path(self, number: int) -> Path:
        return segment_path(self._directory, number)

    def _believed(self, number: int) -> Scan:
        """The scan of a segment, void when this is not the file that was noted.

        Raises:
            SpoolFailed: CORRUPT when it is the newest one.
        """
        found = self._checked(number)
        stamp = self._stamps.get(number)
        if not stamp or not found.records or found.stamp == stamp:
            before = self._cataloged.get(number)
            longer = before is not None and found.size > before.size
            return found.before(before.size) if before is not None and longer else found
        if number == self._durable.segment and number not in self._cataloged:
            raise unknown_end(self._path(number), number, "was swapped for another file")
        log.warning("%s was swapped for another file: no row in it counts", self._path(number))
        return found.void()

    def _checked(self, number: int) -> Scan:
        found = self._read(self._path(number), number)
        for start, stop in found.damage:
            log.warning("%s: bytes %d to %d are damaged", self._path(number), start, stop)
        head = found.head
        if head is not None and head.state is not None and head.state["id"] != self._identity.id:
            other = f" belongs to the spool {head.state['id']}, this one is {self._identity.id}"
            raise unreadable_segment(self._path(number), number, other)
        return found

    def _segment(self, found: Scan) -> Segment:
        before = self._cataloged.get(found.number)
        starts, ends = _range(found.head, found.rows, self._identity.partitions)
        if before is not None:
            starts, ends = list(before.starts), list(map(max, before.ends, ends))
        stamp = self._stamps.get(found.number) or found.stamp
        segment = Segment(self._path(found.number), found.number, starts, ends, stamp)
        segment.add(
            ((record.partition, record.first, record.stop, record.at) for record in found.rows),
            found.size,
        )
        segment.ends[:] = map(max, segment.ends, ends)
        return segment


def expected_stamps(
    directory: Path,
    numbers: Sequence[int],
    cataloged: Mapping[int, Segment],
    durable: Durable,
    preamble: int,
) -> dict[int, str]:
    """Which file each segment must be: its stamp; empty or missing where nothing says it.

    The catalog says it, what was durable, and the head of the segment after it, which is believed
    when that is itself the file that it must be: so from the newest on.

    Raises:
        OSError: the disk failed.
    """
    stamps = {number: segment.stamp for number, segment in cataloged.items()}
    stamps.setdefault(durable.segment, durable.stamp)
    for number in reversed(numbers):
        if number - 1 in cataloged:
            continue
        head = read_head(segment_path(directory, number), number, preamble)
        expected = stamps.get(number)
        if head is not None and "stamp" in head and (not expected or expected == head["stamp"]):
            stamps.setdefault(*head["previous"])
    return stamps


def _range(
    head: Record | None, rows: Sequence[Record], partitions: int
) -> tuple[list[int], list[int]]:
    """Starts and ends of a segment as far as it says; a start of -1 is not known."""
    starts = (
        padded(head.state["ends"], partitions, 0)
        if head is not None and head.state
        else [-1] * partitions
    )
    ends = [max(0, start) for start in starts]
    for record in rows:
        if starts[record.partition] < 0:
            starts[record.partition] = record.first
        ends[record.partition] = record.stop
    return starts, ends


def _known(starts: Sequence[int], otherwise: Sequence[int]) -> list[int]:
    return [a if a >= 0 else b for a, b in zip(starts, otherwise, strict=True)]


def unknown_end(path: Path, number: int, what: str) -> SpoolFailed:
    why = f", the newest segment, {what}, so it is not known which offsets were given out"
    return unreadable_segment(path, number, why)
