"""The group that is gathered now: pieces of messages, events, and who is to hear of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.aqueduct.conventions.dedupe.checksum import Checks
from aqueduct_core.intake.sessions.tally import Tally
from aqueduct_core.intake.storage.arrow import BatchSlice, RowSource, add_contents, to_batch
from aqueduct_core.intake.storage.commit_tracker import CommitTracker, Key
from aqueduct_core.intake.storage.event_log import LoggedEvent, to_event_batch
from aqueduct_core.intake.storage.pending import GroupListener, PendingBatch, PendingEvent, Receipt
from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool import SPARSE, ContentSum, SequenceMark

MAX_BATCH_BYTES = 1 << 30
"""Payload bytes of one record batch; Arrow's ``binary`` ends at 2 GiB."""

FEW = 4
"""Ranges that take less room than the bits of a block."""


class Noted(NamedTuple):
    """Messages that are committed when ``partition`` is, up to its end after this group.

    ``source`` None: they were stored before."""

    book: CommitTracker
    key: Key
    ranges: tuple[Range, ...]
    partition: int
    source: RowSource | None = None


class TakenRows(NamedTuple):
    """What a group took of an offer, or gave back."""

    rows: int = 0
    size: int = 0
    repeats: int = 0


class GroupRecord(NamedTuple):
    """One append to the spool."""

    log: int
    batch: pa.RecordBatch
    marks: Sequence[SequenceMark]
    sums: Sequence[ContentSum] = ()


class OpenGroup:
    """Ends when its `records` were handed to the spool.

    ``latest`` are the newest timestamps of all logs, which groups raise in turn; the last log is
    that of events. Events come behind all messages of the group, and in their own order.
    ``repeats`` are pieces that are stored already, ``repeating`` an offer of each channel that
    brought any, by the identity of its tally. ``checked`` are the pieces with logical numbers that
    `records` has given, with the checks of all their messages.
    """

    __slots__ = ("_event_marks", "_events", "_finished", "_latest", "_owners", "_pieces", "_relied",
                 "_taken", "_withdrawn", "checked", "marks", "noted", "receipts", "recorded",
                 "repeating", "repeats", "size")  # fmt: skip

    def __init__(self, latest: list[int]) -> None:
        self.size = 0
        self.receipts: list[tuple[GroupListener, Receipt]] = []
        self.recorded: list[tuple[GroupListener, int]] = []
        self.noted: list[Noted] = []
        self.marks: dict[tuple[str, str], RangeSet] = {}
        self.repeating: dict[int, PendingBatch] = {}
        self.repeats: list[BatchSlice] = []
        self.checked: list[tuple[list[BatchSlice], Checks]] = []
        self._latest = latest
        self._pieces: dict[int, list[BatchSlice]] = {}
        self._owners: dict[int, list[SequenceMark]] = {}
        self._events: list[LoggedEvent] = []
        self._event_marks: list[SequenceMark] = []
        self._relied: set[tuple[str, str]] = set()
        self._finished: set[tuple[str, int]] = set()
        self._taken: dict[int, TakenRows] = {}
        self._withdrawn: dict[int, RowSource] = {}

    @property
    def empty(self) -> bool:
        return not (self.receipts or self._events)

    @property
    def writes(self) -> bool:
        """Whether there is anything for the disk; a group of repeats has only receipts."""
        return bool(self._pieces or self._events)

    def take(
        self, offer: PendingBatch, partition: int, seen: RangeSet | NumberSet | None
    ) -> TakenRows:
        """Take a run in, but for what is ``seen`` (logical numbers that are stored) or stands
        here already."""
        run, source, latest = offer.run, offer.source, self._latest
        self.receipts.append((offer.party, offer.receipt))
        book = offer.books.book if offer.books is not None else None
        if book is not None:
            self.noted.append(_noted(book, offer, partition))
        unstored = offer.unstored if seen is None else ()  # no holes in logical numbers
        wanted = _but(run.count, unstored) if seen is None else self._wanted(offer, seen)
        if seen is not None and offer.tally is not None:
            self._repeat(offer, offer.tally, wanted)
        rows = size = 0
        for low, high in wanted:
            timestamp = latest[partition] = max(offer.timestamp, latest[partition])
            piece = BatchSlice(
                source, run, low, high, timestamp, offer.resumes, offer.numbers, offer.tally
            )
            self._pieces.setdefault(partition, []).append(piece)
            rows += high - low
            size += piece.size
        self.size += run.size
        before = self._taken.get(id(source))
        if before is None:
            self._taken[id(source)] = TakenRows(rows, size)
        else:
            self._taken[id(source)] = TakenRows(before.rows + rows, before.size + size)
        return TakenRows(rows, size, run.count - rows - len(unstored))

    def own(self, partition: int, owner: SequenceMark) -> None:
        """Mark who owns a channel, in the first record of its partition."""
        self._owners.setdefault(partition, []).append(owner)
        self._mark(owner)

    def record(self, occurrence: PendingEvent, marks: Sequence[SequenceMark] = ()) -> None:
        """Take an event in, with what becomes true by it; its counts are those of now."""
        event = occurrence.completed()
        if event.timestamp < self._latest[-1]:
            event = replace(event, timestamp=self._latest[-1])
        self._latest[-1] = event.timestamp
        self._events.append(event)
        self._event_marks += marks
        for mark in marks:
            self._mark(mark)
        self.size += event.size
        if occurrence.confirms:
            self.recorded.append((occurrence.party, event.channel_id or 0))
            if event.channel_id is not None:
                self._finished.add((event.connection, event.channel_id))

    def withdraw(self, source: RowSource) -> TakenRows:
        """Leave out what stands here of a channel that was cancelled: those rows.

        Its receipts stay: the channel is over, so they ack nothing, and its credit goes back. Rows
        stay when the channel's finish is here too, which counts them; and when another connection's
        message is left out as a repeat of one of them, now or later: it is acked with this group,
        so its copy has to be in it.
        """
        taken = self._taken.pop(id(source), None)
        if taken is None or source.track in self._relied:
            return TakenRows()
        if (source.connection, source.channel_id) in self._finished:
            return TakenRows()
        self._withdrawn[id(source)] = source
        return taken

    def records(self) -> Iterator[GroupRecord]:
        gone = {key for key, source in self._withdrawn.items() if source.track not in self._relied}
        if gone:
            self.noted = [noted for noted in self.noted if id(noted.source) not in gone]
        for partition, pieces in self._pieces.items():
            kept = [piece for piece in pieces if id(piece.source) not in gone] if gone else pieces
            owners = self._owners.get(partition, [])
            for part in _bounded(kept) if kept else ():
                numbered = [piece for piece in part if piece.resumes and piece.run.reliable]
                sums, checks = add_contents(numbered)
                self.checked.append((numbered, checks))
                yield GroupRecord(partition, to_batch(part), _marks(part) + owners, sums)
                owners = []
        if self._events:
            log = len(self._latest) - 1
            yield GroupRecord(log, to_event_batch(self._events, log), self._event_marks)

    def _mark(self, mark: SequenceMark) -> None:
        self.marks.setdefault(mark[:2], RangeSet()).add(mark.first, mark.stop)

    def _repeat(self, offer: PendingBatch, tally: Tally, wanted: list[Range]) -> None:
        """Note what of a run is stored already: the rest of ``wanted``."""
        run, source, low = offer.run, offer.source, 0
        for first, stop in [*wanted, (run.count, run.count)]:
            if low < first:
                piece = BatchSlice(
                    source, run, low, first, offer.timestamp, True, offer.numbers, tally
                )
                for numbers in piece.logical:
                    tally.repeated(*numbers)
                self.repeats.append(piece)
            low = stop
        if tally.deduped:
            self.repeating[id(tally)] = offer

    def _wanted(self, offer: PendingBatch, seen: RangeSet | NumberSet) -> list[Range]:
        """The index ranges of the run that are not stored yet; they are marked as such."""
        track = offer.source.track
        marks = self.marks.setdefault(track, RangeSet())
        wanted: list[Range] = []
        for low, high, number in offer.logical:
            missing = seen.missing(number, number + high - low)
            if any(marks.overlaps(first, stop) for first, stop in missing):
                self._relied.add(track)
            base = number - low
            for first, stop in [new for pair in missing for new in marks.add(*pair)]:
                if wanted and wanted[-1][1] == first - base:
                    wanted[-1] = (wanted[-1][0], stop - base)
                else:
                    wanted.append((first - base, stop - base))
        marks.add(0, offer.source.floor or 0)
        return wanted


def _but(count: int, indexes: tuple[int, ...]) -> list[Range]:
    """The indexes below ``count`` without some of them."""
    kept = RangeSet([(0, count)])
    for index in indexes:
        kept.remove(index, index + 1)
    return list(kept)


def _bounded(pieces: list[BatchSlice]) -> list[list[BatchSlice]]:
    """The pieces in lists of at most `MAX_BATCH_BYTES` (a longer piece stands alone)."""
    lists: list[list[BatchSlice]] = [[]]
    size = 0
    for piece in pieces:
        if lists[-1] and size + piece.size > MAX_BATCH_BYTES:
            lists.append([])
            size = 0
        lists[-1].append(piece)
        size += piece.size
    return lists


def _marks(pieces: list[BatchSlice]) -> list[SequenceMark]:
    """What becomes stored with exactly these pieces: a torn group keeps whole batches only."""
    stored: dict[tuple[str, str], RangeSet] = {}
    for piece in pieces:
        if piece.resumes and piece.run.reliable:
            ranges = stored.setdefault(piece.source.track, RangeSet())
            for first, stop in piece.logical:
                ranges.add(first, stop)
            ranges.add(0, piece.source.floor or 0)
    return [
        SequenceMark(*key, *each)
        for key, ranges in stored.items()
        for each in _entries(key, ranges)
    ]


def _entries(track: tuple[str, str], ranges: RangeSet) -> Iterable[Range]:
    """What is written of the ranges: of rows of a source with holes, bits."""
    if not track[1].endswith(SPARSE) or len(ranges) <= FEW:
        return ranges
    numbers = NumberSet()
    for first, stop in ranges:
        numbers.add(first, stop)
    return numbers.entries()


def _noted(book: CommitTracker, offer: PendingBatch, partition: int) -> Noted:
    run, source = offer.run, offer.source
    logical = offer.resumes and run.reliable and not source.by_source
    key = Key(source.channel, run.reliable, None if logical else source.channel_id)
    first = run.first + (source.start if logical else 0)
    return Noted(book, key, ((first, first + run.count),), partition, source)
