"""Group commit: what connections received goes to the spool in groups, and is acked when durable.

A run or an event that is offered is *accepted* into the open group, or *held back* while the spool
is full. The group ends when it is large enough or old enough; then it becomes one record batch for
each log and goes to the spool with the watermarks that become true with it. When the spool says
that a group is durable, everybody who had a part in it is told (`Party.durable`), and only then
acks messages and returns credit.

Logical numbers that are stored already, or stand in the open group, are not stored again. They
are acked with the group that is open now: groups become durable in order, so the earlier copy is
durable by then. Where they are known to have other content their connection is refused instead
(`repeats`). Events are accepted in the order in which they were offered, behind what they
speak of, and each once.

Memory while the spool is full: the payload that waits is bounded by the transport's windows of the
connections, because credit goes back only with storage. What waits otherwise (events, the frame of
each run) is bounded by bringing connections to rest: one of which `PARTY_ITEMS` wait, and any that
brings more while `ALL_ITEMS` wait in all. A burst of each may come on top.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence

import pyarrow as pa

from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.errors import AqueductError, SpoolFailed
from aqueduct_core.intake.storage import number_gaps
from aqueduct_core.intake.storage.arrow import RowSource
from aqueduct_core.intake.storage.callbacks import GroupCallbacks
from aqueduct_core.intake.storage.commit_tracker import CommitTracker, Key
from aqueduct_core.intake.storage.event_summaries import Nacks, Rejections
from aqueduct_core.intake.storage.open_group import Noted, OpenGroup, TakenRows
from aqueduct_core.intake.storage.overflow_queue import OverflowQueue
from aqueduct_core.intake.storage.pending import (
    GroupCounters,
    GroupListener,
    PendingBatch,
    PendingEvent,
)
from aqueduct_core.intake.storage.repeats import Repeats, told
from aqueduct_core.intake.storage.store import Store
from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import RangeSet

log = logging.getLogger(__name__)

RETRY = 0.05
"""Seconds between two looks for room while the spool is full."""


class GroupCommit:
    """The open group of an intake, and the groups on their way to the disk.

    Args:
        store: the spool; the caller hands its events on to `made_durable`.
        latest: the newest stored timestamp of each log, microseconds; none goes below. The last log
            is that of events, the others are the partitions of messages.
        group_bytes, group_seconds: what ends a group.
        later: ``later(seconds, call)`` as of an event loop.
        failed: told once when the spool cannot go on; nothing is stored or acked afterwards.
        allowed: raises an AqueductError when the spool is not ours any more; asked before each
            write.
    """

    def __init__(
        self,
        store: Store,
        latest: Sequence[int],
        *,
        group_bytes: int,
        group_seconds: float,
        later: Callable[[float, Callable[[], None]], object],
        failed: Callable[[AqueductError], None],
        allowed: Callable[[], None] = lambda: None,
    ) -> None:
        self.counters = GroupCounters()
        self.repeats = Repeats(store, self.flush)
        self._store = store
        self._latest = list(latest)
        self._partitions = len(latest) - 1
        self._group_bytes = group_bytes
        self._group_seconds = group_seconds
        self._later = later
        self._failed = failed
        self._allowed = allowed
        self._broken = False
        self._stopped = False
        self._open = OpenGroup(self._latest)
        self._opened = 0
        self._timed = False
        self._ends = list(store.ends())
        self._under_way: dict[int, GroupCallbacks] = {}
        self._backlog = OverflowQueue()
        self._nacks = Nacks()
        self._rejections = Rejections(later, self._begin)
        self._unwritten = False
        self._retrying = False

    @property
    def idle(self) -> bool:
        """Everything that was accepted is durable."""
        return self._open.empty and not (self._under_way or self._nacks)

    @property
    def holding(self) -> bool:
        """Runs or events wait for room in the spool."""
        return bool(self._backlog)

    @property
    def crowded(self) -> bool:
        """So much waits that connections which bring more are to rest (`rest`); or the end has
        come."""
        return self._stopped or self._backlog.crowded

    @property
    def held_bytes(self) -> int:
        """Memory of what was taken in and is not durable yet, about."""
        under_way = sum(due.size for due in self._under_way.values())
        return self._backlog.size + self._open.size + under_way

    def memory_of(self, party: GroupListener) -> int:
        """Memory of what waits of one connection beside its payload, about."""
        return self._backlog.memory_of(party)

    def offer(self, offer: PendingBatch) -> None:
        """Store a run. While the spool is full it waits (bounded by the credit of its peer),
        except datagrams: for these no credit exists, so they are dropped and will be nacked."""
        if self._broken or self._stopped:
            return
        if not (self._backlog or self._store.full):
            self._accept(offer)
        elif offer.run.reliable:
            self._backlog.add(offer)
            self._retry_later()
        else:
            self.counters.unreliable_dropped += offer.run.count
            offer.party.dropped(offer.receipt)

    def record(self, occurrence: PendingEvent) -> None:
        """Store an event, behind all that was offered and recorded before. It waits like a run."""
        if self._broken or (self._stopped and occurrence.confirms):
            return
        if occurrence.event.kind == "rejected" and not self._rejections.single(occurrence):
            return  # it is told with others, later
        if self._stopped or not (self._backlog or self._store.full):
            self._accept_event(occurrence)
        else:
            self._backlog.add(occurrence)
            self._retry_later()

    def nacked(
        self, party: GroupListener, source: RowSource, first: int, stop: int, timestamp: int
    ) -> None:
        """The datagram messages ``[first, stop)`` were nacked: an event for each run of them."""
        if not self._broken:
            self._begin()
            self._nacks.add(party, source, first, stop, timestamp)

    def rest(self, party: GroupListener) -> None:
        """Bring a connection to rest until nothing waits any more."""
        self._backlog.rest(party)

    def withdraw(self, party: GroupListener, source: RowSource | None = None) -> tuple[int, bool]:
        """Drop what is not written yet of a channel that was cancelled or is lost; of a connection
        that is over (``source`` None) only what is held back. How many accepted rows went, and
        whether a finish went with what it counts."""
        channel = None if source is None else source.channel_id
        receipts, finish = self._backlog.withdraw(party, channel)
        for receipt in receipts:
            self.counters.withdrawn += receipt.stop - receipt.first
            party.dropped(receipt)
        taken = TakenRows() if source is None else self._open.withdraw(source)
        self.counters.rows -= taken.rows
        self.counters.bytes -= taken.size
        self.counters.withdrawn += taken.rows
        return taken.rows, finish

    def recall(self, book: CommitTracker, producer: str) -> None:
        """Note in ``book`` what this identity has stored by now."""
        self.flush()
        self._note(
            [
                Noted(book, Key(channel, True), tuple(seen), self._partition(producer, channel))
                for channel, seen in self._store.sequences.seen_of(producer)
                if number_gaps.is_channel(channel)
            ]
        )

    def position(self, producer: str, channel: str) -> ChannelPosition:
        """Where a channel stands: behind everything of it that was ever accepted."""
        between = number_gaps.runs(channel)
        stored, gaps, boundaries = (
            self._known(producer, name) for name in (channel, number_gaps.told(channel), between)
        )
        return number_gaps.position(
            channel,
            stored,
            gaps,
            boundaries,
            floor=self._store.sequences.floor(producer, channel),
            forgot=self._store.sequences.floor(producer, between) > 0,
        )

    def owner(self, producer: str, channel: str) -> int | None:
        """The number of the run that has stored something of a channel last; None: not known."""
        return number_gaps.owner(self._known(producer, number_gaps.owned(channel)))

    def stop(self) -> None:
        """Take no runs any more: later ones, and those held back, are neither stored nor acked.
        What was accepted goes on its way, and so do events, but finishes of what is not stored."""
        self._stopped = True
        for item in self._backlog.clear():
            if isinstance(item, PendingEvent) and not item.confirms:
                self._accept_event(item)
        self.flush()

    def flush(self) -> None:
        """End the open group and send it on its way."""
        self._gather()
        group, self._open = self._open, OpenGroup(self._latest)
        self._opened += 1
        self._timed = False
        if group.empty or self._broken:
            return
        if not group.writes:
            self._settle_after_last(group)
            return
        try:
            self._allowed()
            number = self._store.group
            records = list(group.records())
            for record in records:
                _, self._ends[record.log] = self._store.append(*record)
            if not records:  # all of it was withdrawn
                self._settle_after_last(group)
                return
            due = self._under_way.setdefault(number, GroupCallbacks())
            due.receipts += group.receipts
            due.recorded += group.recorded
            due.size += group.size
            self._note(group.noted)
            self._write()
            self.repeats.compare(group)
        except AqueductError as error:
            self.fail(error)
            return
        except (pa.ArrowException, ValueError, OverflowError) as error:
            log.exception("a group could not be made into record batches")
            self.fail(
                SpoolFailed(
                    "IO",
                    f"a group of messages could not be stored: {type(error).__name__}",
                    "Nothing of it was acked; report the log of the intake and start it again",
                )
            )
            return
        self.counters.groups += 1

    def made_durable(self, group: int) -> None:
        """The groups up to this number are on disk."""
        if self._broken:
            return
        settled = GroupCallbacks()
        for number in [number for number in self._under_way if number <= group]:
            due = self._under_way.pop(number)
            settled.receipts += due.receipts
            settled.recorded += due.recorded
        settled.tell()

    def fail(self, error: AqueductError) -> None:
        """Store and ack nothing from now on; what is not durable stays un-acked."""
        if not self._broken:
            self._broken = True
            self._failed(error)

    def _begin(self) -> None:
        """Something is to be stored: the open group has an age from now on."""
        if not self._timed:
            self._timed = True
            opened = self._opened
            self._later(self._group_seconds, lambda: self._flush_if(opened))

    def _accept(self, offer: PendingBatch) -> None:
        self._begin()
        source, run, group = offer.source, offer.run, self._open
        logical = offer.resumes and run.reliable
        seen: RangeSet | NumberSet | None = None
        if logical:
            marks = self._store.sequences
            seen = (marks.rows if source.by_source else marks.seen)(*source.track)
            self._mind_floor(offer, seen)
        partition = self._partition(source.producer, source.channel)
        taken = group.take(offer, partition, seen)
        if taken.rows and logical and source.run_number is not None:
            self._own(source, source.run_number, partition)
        counters = self.counters
        counters.rows += taken.rows
        counters.bytes += taken.size
        counters.deduped += taken.repeats
        if offer.tally is not None and run.reliable:
            offer.tally.stored += taken.rows
        if group.size >= self._group_bytes:
            self.flush()

    def _accept_event(self, occurrence: PendingEvent) -> None:
        self._begin()
        event = occurrence.event
        for nacked in self._nacks.take(event.connection, event.channel_id):
            self._put(nacked)
        if occurrence.start:
            self._declare(occurrence)
        tally = occurrence.tally
        if tally is not None and tally.deduped:
            if self.repeats.ends_otherwise(occurrence, tally):
                return
            self._begin()
            if not tally.told:
                tally.told = True
                self._put(PendingEvent(occurrence.party, told(event, tally)))
        if event.kind != "repeated":
            self._put(occurrence)
        if self._open.size >= self._group_bytes:
            self.flush()

    def _own(self, source: RowSource, run: int, partition: int) -> None:
        """What is stored of a channel is its run's from now on, durably."""
        producer, name = source.producer, number_gaps.owned(source.channel)
        known = self._open.marks.get((producer, name)) or self._store.sequences.seen(producer, name)
        if number_gaps.owner(known) != run:
            self._open.own(partition, number_gaps.owning(producer, source.channel, run, known))

    def _mind_floor(self, offer: PendingBatch, seen: RangeSet | NumberSet) -> None:
        """Count what may have been stored before and is not known to be any more."""
        source = offer.source
        floor = self._store.sequences.floor(*source.track)
        if not floor:
            return
        here = self._open.marks.get(source.track, RangeSet())
        more = sum(
            stop - start
            for low, high, first in offer.logical
            for missing in seen.missing(first, min(floor, first + high - low))
            for start, stop in here.missing(*missing)
        )
        if more and not self.counters.dedupe_window_exceeded:
            log.warning(
                "dedupe_window_exceeded: producer %r sends numbers from %d on of channel %r, of "
                "which it is not remembered any more whether they are stored; they are stored",
                source.producer,
                offer.logical[0][2],
                source.channel,
            )
        self.counters.dedupe_window_exceeded += more

    def _known(self, producer: str, name: str) -> RangeSet:
        """What is marked under a name, by the spool and by the open group."""
        known = RangeSet(self._store.sequences.seen(producer, name))
        for low, high in self._open.marks.get((producer, name), ()):
            known.add(low, high)
        return known

    def _declare(self, occurrence: PendingEvent) -> None:
        """A channel goes on at a number: what it left out below is a hole, told once."""
        event = occurrence.event
        producer, channel = event.producer or "", event.channel or ""
        known = [self._known(producer, name) for name in (channel, number_gaps.told(channel))]
        for hole in number_gaps.holes(occurrence.start, *known):
            self._put(PendingEvent(occurrence.party, number_gaps.gap(event, hole)))

    def _put(self, occurrence: PendingEvent) -> None:
        event, boundary = occurrence.event, occurrence.boundary
        earlier = RangeSet()
        if boundary:
            earlier = self._known(event.producer or "", number_gaps.runs(event.channel or ""))
        self._open.record(occurrence, number_gaps.marks(event, boundary, earlier))
        self.counters.events += 1

    def _gather(self) -> None:
        """What was summed up joins the group, unless there is no room for events."""
        if self._stopped:
            self._rejections.over()
        if self._broken or (not self._stopped and (self._backlog or self._store.full)):
            if self._nacks or self._rejections.due:
                self._retry_later()
            return
        for nacked in self._nacks.take_all():
            self._put(nacked)
        for summary in self._rejections.take():
            self._put(summary)

    def _partition(self, producer: str, channel: str) -> int:
        return zlib.crc32(f"{producer}\0{channel}".encode()) % self._partitions

    def _note(self, noted: list[Noted]) -> None:
        for book, key, ranges, partition, _ in noted:
            book.note(key, ranges, partition, self._ends[partition])

    def _flush_if(self, opened: int) -> None:
        if opened == self._opened:
            self.flush()

    def _settle_after_last(self, group: OpenGroup) -> None:
        """Only repeats: their copies are durable with the last group that is under way."""
        self.repeats.compare(group)
        if self._under_way:
            self._under_way[max(self._under_way)].receipts += group.receipts
        else:
            GroupCallbacks(group.receipts).tell()
        self._note(group.noted)

    def _write(self) -> None:
        """The disk may have no space: then the spool keeps its group open and is full."""
        self._unwritten = not self._store.flush()
        if self._unwritten:
            self._retry_later()

    def _retry_later(self) -> None:
        if not self._retrying:
            self._retrying = True
            self._later(RETRY, self._retry)

    def _retry(self) -> None:
        self._retrying = False
        if self._broken:
            return
        try:
            if self._unwritten:
                self._write()
        except AqueductError as error:
            self.fail(error)
            return
        while self._backlog and not self._store.full and not self._broken:
            item = self._backlog.take()
            if isinstance(item, PendingBatch):
                self._accept(item)
            else:
                self._accept_event(item)
        if self._backlog or self._store.full:
            self._retry_later()
            return
        if not self._stopped:
            self._backlog.awake()
        if self._nacks or self._rejections.due:
            self.flush()
