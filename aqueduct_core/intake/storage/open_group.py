"""The group that is gathered now: messages, events, and to whom they are reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.engine.checksum import Checks
from aqueduct_core.intake.storage.batches import (
    BatchSlice,
    ChannelSource,
    ChannelTally,
    add_contents,
)
from aqueduct_core.intake.storage.commit_tracker import CommitTracker, Key
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.pending import (
    GroupListener,
    PendingBatch,
    PendingEvent,
    Receipt,
    notify,
)
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool import SPARSE, ContentSum, SequenceMark

MAX_BATCH_BYTES = 1 << 30
"""Payload bytes of one record batch; Arrow's ``binary`` ends at 2 GiB."""

FEW = 4
"""Ranges that take less room than the bits of a block."""


class TrackedMessages(NamedTuple):
    """Messages that are committed when ``partition`` is, up to its end after this group; None: when
    all partitions are.

    ``source`` None: they were stored before."""

    tracker: CommitTracker
    key: Key
    ranges: tuple[Range, ...]
    partition: int | None
    source: ChannelSource | None = None


class TakenRows(NamedTuple):
    """What a group took of a batch, or gave back."""

    rows: int = 0
    size: int = 0
    repeats: int = 0


class GroupRecord(NamedTuple):
    """One append to the spool."""

    log: int
    batch: pa.RecordBatch
    marks: Sequence[SequenceMark]
    sums: Sequence[ContentSum] = ()


@dataclass(slots=True)
class GroupCallbacks:
    """The listeners of a group, or several, to be called when it is on the disk. ``size``: bytes of
    its messages and events, about."""

    receipts: list[tuple[GroupListener, Receipt]] = field(default_factory=list)
    recorded: list[tuple[GroupListener, int]] = field(default_factory=list)
    size: int = 0

    def add(self, other: GroupCallbacks) -> None:
        self.receipts += other.receipts
        self.recorded += other.recorded
        self.size += other.size

    def call(self) -> None:
        """It is on the disk: each listener gets its own part, messages first."""
        receipts: dict[GroupListener, list[Receipt]] = {}
        for listener, receipt in self.receipts:
            receipts.setdefault(listener, []).append(receipt)
        for listener, mine in receipts.items():
            notify(listener, listener.durable, mine)
        recorded: dict[GroupListener, list[int]] = {}
        for listener, channel in self.recorded:
            recorded.setdefault(listener, []).append(channel)
        for listener, channels in recorded.items():
            notify(listener, listener.recorded, channels)


class OpenGroup:
    """Ends when its `records` were handed to the spool.

    ``latest`` are the newest timestamps of all logs, which groups raise in turn; the last log is
    that of events. Events come behind all messages of the group, and in their own order.
    ``repeats`` are slices that are stored already, ``repeating`` a batch of each channel that
    brought any, by the identity of its tally. ``checked`` are the slices with logical numbers that
    `records` has given, with the checks of all their messages.
    """

    __slots__ = ("_event_marks", "_events", "_finished", "_latest", "_owners", "_relied", "_rows",
                 "_slices", "_taken", "_withdrawn", "callbacks", "checked", "marks", "repeating",
                 "repeats", "tracked")  # fmt: skip

    def __init__(self, latest: list[int], rows: RowFormat) -> None:
        self.callbacks = GroupCallbacks()
        self.tracked: list[TrackedMessages] = []
        self.marks: dict[tuple[str, str], RangeSet] = {}
        self.repeating: dict[int, PendingBatch] = {}
        self.repeats: list[BatchSlice] = []
        self.checked: list[tuple[list[BatchSlice], Checks]] = []
        self._latest = latest
        self._rows = rows
        self._slices: dict[int, list[BatchSlice]] = {}
        self._owners: dict[int, list[SequenceMark]] = {}
        self._events: list[LoggedEvent] = []
        self._event_marks: list[SequenceMark] = []
        self._relied: set[tuple[str, str]] = set()
        self._finished: set[tuple[str, int]] = set()
        self._taken: dict[int, TakenRows] = {}
        self._withdrawn: dict[int, ChannelSource] = {}

    @property
    def size(self) -> int:
        """Bytes of its messages and events, about."""
        return self.callbacks.size

    @property
    def empty(self) -> bool:
        return not (self.callbacks.receipts or self._events)

    @property
    def writes(self) -> bool:
        """Whether there is anything for the disk; a group of repeats has only receipts."""
        return bool(self._slices or self._events)

    def take(
        self, pending: PendingBatch, partition: int, seen: RangeSet | NumberSet | None
    ) -> TakenRows:
        """Take a batch in, but for what is ``seen`` (logical numbers that are stored) or stands
        here already."""
        batch, source, latest = pending.batch, pending.source, self._latest
        self.callbacks.receipts.append((pending.listener, pending.receipt))
        unstored = pending.unstored if seen is None else ()  # no holes in logical numbers
        wanted = _but(batch.count, unstored) if seen is None else self._wanted(pending, seen)
        if seen is not None and pending.tally is not None:
            self._repeat(pending, pending.tally, wanted)
        rows = size = 0
        for low, high in wanted:
            timestamp = latest[partition] = max(pending.timestamp, latest[partition])
            part = BatchSlice(source, batch, low, high, timestamp, pending.resumes,
                              pending.numbers, pending.tally)  # fmt: skip
            self._slices.setdefault(partition, []).append(part)
            rows += high - low
            size += part.size
        self.callbacks.size += batch.size
        before = self._taken.get(id(source))
        if before is None:
            self._taken[id(source)] = TakenRows(rows, size)
        else:
            self._taken[id(source)] = TakenRows(before.rows + rows, before.size + size)
        repeats = batch.count - rows - len(unstored)
        tracker = pending.receipts.tracker if pending.receipts is not None else None
        if tracker is not None:
            # where the earlier copy lies, the track does not tell of a source that is scattered
            anywhere = repeats and source.scattered
            self.tracked.append(_tracked(tracker, pending, None if anywhere else partition))
        return TakenRows(rows, size, repeats)

    def own(self, partition: int, owner: SequenceMark) -> None:
        """Mark who owns a channel, in the first record of its partition."""
        self._owners.setdefault(partition, []).append(owner)
        self._mark(owner)

    def record(self, pending: PendingEvent, marks: Sequence[SequenceMark] = ()) -> None:
        """Take an event in, with what becomes true by it; its counts are those of now."""
        event = pending.completed()
        if event.timestamp < self._latest[-1]:
            event = replace(event, timestamp=self._latest[-1])
        self._latest[-1] = event.timestamp
        self._events.append(event)
        self._event_marks += marks
        for mark in marks:
            self._mark(mark)
        self.callbacks.size += event.size
        if pending.confirms:
            self.callbacks.recorded.append((pending.listener, event.channel_id or 0))
            if event.channel_id is not None:
                self._finished.add((event.connection, event.channel_id))

    def withdraw(self, source: ChannelSource) -> TakenRows:
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
            self.tracked = [each for each in self.tracked if id(each.source) not in gone]
        for partition, slices in self._slices.items():
            kept = [each for each in slices if id(each.source) not in gone] if gone else slices
            owners = self._owners.get(partition, [])
            for some in _bounded(kept) if kept else ():
                numbered = [each for each in some if each.resumes and each.batch.reliable]
                sums, checks = add_contents(numbered)
                self.checked.append((numbered, checks))
                yield GroupRecord(partition, self._rows.to_rows(some), _marks(some) + owners, sums)
                owners = []
        if self._events:
            log = len(self._latest) - 1
            yield GroupRecord(log, self._rows.to_events(self._events, log), self._event_marks)

    def _mark(self, mark: SequenceMark) -> None:
        self.marks.setdefault(mark[:2], RangeSet()).add(mark.first, mark.stop)

    def _repeat(self, pending: PendingBatch, tally: ChannelTally, wanted: list[Range]) -> None:
        """Note what of a batch is stored already: the rest of ``wanted``."""
        batch, low = pending.batch, 0
        for first, stop in [*wanted, (batch.count, batch.count)]:
            if low < first:
                part = BatchSlice(pending.source, batch, low, first, pending.timestamp, True,
                                  pending.numbers, tally)  # fmt: skip
                for numbers in part.logical:
                    tally.repeated(*numbers)
                self.repeats.append(part)
            low = stop
        if tally.deduped:
            self.repeating[id(tally)] = pending

    def _wanted(self, pending: PendingBatch, seen: RangeSet | NumberSet) -> list[Range]:
        """The index ranges of the batch that are not stored yet; they are marked as such."""
        track = pending.source.track
        marks = self.marks.setdefault(track, RangeSet())
        wanted: list[Range] = []
        for low, high, number in pending.logical:
            missing = seen.missing(number, number + high - low)
            if any(marks.overlaps(first, stop) for first, stop in missing):
                self._relied.add(track)
            base = number - low
            for first, stop in [new for pair in missing for new in marks.add(*pair)]:
                if wanted and wanted[-1][1] == first - base:
                    wanted[-1] = (wanted[-1][0], stop - base)
                else:
                    wanted.append((first - base, stop - base))
        marks.add(*pending.source.done)
        return wanted


def _but(count: int, indexes: tuple[int, ...]) -> list[Range]:
    """The indexes below ``count`` without some of them."""
    kept = RangeSet([(0, count)])
    for index in indexes:
        kept.remove(index, index + 1)
    return list(kept)


def _bounded(slices: list[BatchSlice]) -> list[list[BatchSlice]]:
    """The slices in lists of at most `MAX_BATCH_BYTES` (a longer one stands alone)."""
    lists: list[list[BatchSlice]] = [[]]
    size = 0
    for each in slices:
        if lists[-1] and size + each.size > MAX_BATCH_BYTES:
            lists.append([])
            size = 0
        lists[-1].append(each)
        size += each.size
    return lists


def _marks(slices: list[BatchSlice]) -> list[SequenceMark]:
    """What becomes stored with exactly these slices: a torn group keeps whole batches only."""
    stored: dict[tuple[str, str], RangeSet] = {}
    for each in slices:
        if each.resumes and each.batch.reliable:
            ranges = stored.setdefault(each.source.track, RangeSet())
            for first, stop in each.logical:
                ranges.add(first, stop)
            ranges.add(*each.source.done)
    return [
        SequenceMark(*key, *entry)
        for key, ranges in stored.items()
        for entry in _entries(key, ranges)
    ]


def _entries(track: tuple[str, str], ranges: RangeSet) -> Iterable[Range]:
    """What is written of the ranges: of rows of a source with holes, bits."""
    if not track[1].endswith(SPARSE) or len(ranges) <= FEW:
        return ranges
    numbers = NumberSet()
    for first, stop in ranges:
        numbers.add(first, stop)
    return numbers.entries()


def _tracked(
    tracker: CommitTracker, pending: PendingBatch, partition: int | None
) -> TrackedMessages:
    batch, source = pending.batch, pending.source
    logical = pending.resumes and batch.reliable and not source.by_source
    key = Key(source.channel, batch.reliable, None if logical else source.channel_id)
    first = batch.first + (source.start if logical else 0)
    return TrackedMessages(tracker, key, ((first, first + batch.count),), partition, source)
