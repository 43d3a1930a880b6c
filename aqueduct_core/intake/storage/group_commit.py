"""Group commit: what connections received goes to the spool in groups, and is acked when durable.

A batch or an event that comes is *accepted* into the open group, or *held back* while the spool
is full. The group ends when it is large enough or old enough, or early: when nothing more came
since the loop looked last, no group is on its way to the disk, and it is cheap enough (`linger`).
Then it becomes one record batch for each log and goes to the spool with the watermarks that become
true with it. When the spool says
that a group is durable, everybody who had a part in it is called (`GroupListener.durable`), and
only then acks messages and returns credit.

Logical numbers that are stored already, or stand in the open group, are not stored again. They
are acked with the group that is open now: groups become durable in order, so the earlier copy is
durable by then. Where they are known to have other content their connection is refused instead
(`repeats`). Events are accepted in the order in which they came, behind what they
speak of, and each once.

Memory while the spool is full: the payload that waits is bounded by the transport's windows of the
connections, because credit goes back only with storage. What waits otherwise (events, the frame of
each batch) is bounded by bringing connections to rest: one of which `LISTENER_ITEMS` wait, and any
that brings more while `ALL_ITEMS` wait in all. A burst of each may come on top.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TypeAlias

from aqueduct_core.errors import AqueductError, SpoolFailed
from aqueduct_core.intake.storage.batches import ChannelSource
from aqueduct_core.intake.storage.channel_numbers import ChannelNumbers, Store
from aqueduct_core.intake.storage.commit_tracker import CommitTracker, Key
from aqueduct_core.intake.storage.event_log import REJECTED, REPEATED
from aqueduct_core.intake.storage.event_summaries import Nacks, Rejections
from aqueduct_core.intake.storage.linger import BULK_BYTES, EarlyEnd
from aqueduct_core.intake.storage.open_group import (
    GroupCallbacks,
    OpenGroup,
    TakenRows,
    TrackedMessages,
)
from aqueduct_core.intake.storage.overflow_queue import OverflowQueue
from aqueduct_core.intake.storage.pending import (
    GroupCounters,
    GroupListener,
    GroupObserver,
    PendingBatch,
    PendingEvent,
)
from aqueduct_core.intake.storage.repeats import Repeats, repeated_event
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import RangeSet

log = logging.getLogger(__name__)

RETRY = 0.05
"""Seconds between two looks for room while the spool is full."""


Clock: TypeAlias = Callable[[], float]


class GroupCommit:
    """The open group of an intake, and the groups on their way to the disk.

    Args:
        store: the spool; the caller hands its events on to `made_durable`.
        rows: how messages and events lie there.
        latest: the newest stored timestamp of each log, microseconds; none goes below. The last log
            is that of events, the others are the partitions of messages.
        group_bytes, group_seconds: what ends a group.
        later: ``later(seconds, call)`` as of an event loop.
        clocks: of monotonic seconds, and of seconds of processor time; None: no group ends early.
        failed: called once when the spool cannot go on; nothing is stored or acked afterwards.
        observer: hears of batches, events and groups.
        allowed: raises an AqueductError when the spool is not ours any more; asked before each
            write.
    """

    def __init__(
        self,
        store: Store,
        rows: RowFormat,
        latest: Sequence[int],
        *,
        group_bytes: int,
        group_seconds: float,
        later: Callable[[float, Callable[[], None]], object],
        failed: Callable[[AqueductError], None],
        allowed: Callable[[], None] = lambda: None,
        clocks: tuple[Clock, Clock] | None = None,
        observer: GroupObserver | None = None,
    ) -> None:
        self.counters = GroupCounters()
        self.repeats = Repeats(store, self.flush)
        self.numbers = ChannelNumbers(store, lambda: self._open.marks)
        self._store = store
        self._rows = rows
        self._latest = list(latest)
        self._partitions = len(latest) - 1
        self._group_bytes = group_bytes
        self._group_seconds = group_seconds
        self._later = later
        self._failed = failed
        self._allowed = allowed
        self._observer = observer or GroupObserver()
        self._early: EarlyEnd | None = None
        if clocks is not None:
            self._early = EarlyEnd(later, *clocks, self._may_end, self.flush)
        self._broken = False
        self._stopped = False
        self._open = OpenGroup(self._latest, rows)
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
        """Batches or events wait for room in the spool."""
        return bool(self._backlog)

    @property
    def crowded(self) -> bool:
        """So much waits that connections which bring more are to rest (`rest`); or the end has
        come."""
        return self._stopped or self._backlog.crowded

    @property
    def held_bytes(self) -> int:
        """Memory of what was taken in and is not durable yet, about."""
        under_way = sum(callbacks.size for callbacks in self._under_way.values())
        return self._backlog.size + self._open.size + under_way

    def memory_of(self, listener: GroupListener) -> int:
        """Memory of what waits of one connection beside its payload, about."""
        return self._backlog.memory_of(listener)

    def add(self, pending: PendingBatch) -> None:
        """Store a batch. While the spool is full it waits (bounded by the credit of its peer),
        except datagrams: for these no credit exists, so they are dropped and will be nacked."""
        if self._broken or self._stopped:
            return
        if not (self._backlog or self._store.full):
            self._accept(pending)
        elif pending.batch.reliable:
            self._backlog.add(pending)
            self._retry_later()
        else:
            self.counters.unreliable_dropped += pending.batch.count
            pending.listener.dropped(pending.receipt)

    def record(self, pending: PendingEvent) -> None:
        """Store an event, behind all that came before. It waits like a batch."""
        if self._broken or (self._stopped and pending.confirms):
            return
        if pending.event.kind == REJECTED and not self._rejections.single(pending):
            return  # it is counted with others, and recorded later
        if self._stopped or not (self._backlog or self._store.full):
            self._accept_event(pending)
        else:
            self._backlog.add(pending)
            self._retry_later()

    def nacked(
        self, listener: GroupListener, source: ChannelSource, first: int, stop: int, timestamp: int
    ) -> None:
        """The datagram messages ``[first, stop)`` were nacked: an event for each range of them."""
        if not self._broken:
            self._begin()
            self._nacks.add(listener, source, first, stop, timestamp)

    def rest(self, listener: GroupListener) -> None:
        """Bring a connection to rest until nothing waits any more."""
        self._backlog.rest(listener)

    def withdraw(
        self, listener: GroupListener, source: ChannelSource | None = None
    ) -> tuple[int, bool]:
        """Drop what is not written yet of a channel that was cancelled or is lost; of a connection
        that is over (``source`` None) only what is held back. How many accepted rows went, and
        whether a finish went with what it counts."""
        channel = None if source is None else source.channel_id
        receipts, finish = self._backlog.withdraw(listener, channel)
        for receipt in receipts:
            self.counters.withdrawn += receipt.stop - receipt.first
            listener.dropped(receipt)
        taken = TakenRows() if source is None else self._open.withdraw(source)
        self.counters.rows -= taken.rows
        self.counters.bytes -= taken.size
        self.counters.withdrawn += taken.rows
        return taken.rows, finish

    def recall(self, tracker: CommitTracker, producer: str) -> None:
        """Have ``tracker`` know what this identity has stored by now."""
        self.flush()
        self._track(
            [
                TrackedMessages(tracker, Key(channel, True), tuple(seen), self._partition(source))
                for channel, seen in self.repeats.seen_of(producer)
                for source in [ChannelSource(channel, producer, "", 0)]
            ]
        )

    def stop(self) -> None:
        """Take no batches any more: later ones, and those held back, are neither stored nor acked.
        What was accepted goes on its way, and so do events, but finishes of what is not stored."""
        self._stopped = True
        for item in self._backlog.clear():
            if isinstance(item, PendingEvent) and not item.confirms:
                self._accept_event(item)
        self.flush()

    def flush(self) -> None:
        """End the open group and send it on its way."""
        with nullcontext() if self._early is None else self._early.flushed():
            self._flush()

    def _flush(self) -> None:
        self._gather()
        group, self._open = self._open, OpenGroup(self._latest, self._rows)
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
            self._under_way.setdefault(number, GroupCallbacks()).add(group.callbacks)
            self._track(group.tracked)
            self._observer.written(number)
            self._write()
            self.repeats.compare(group)
        except AqueductError as error:
            self.fail(error)
            return
        except Exception as error:  # of the protocol's rows too: what is lost is never acked
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
            settled.add(self._under_way.pop(number))
        settled.call()
        self._observer.durable(group)
        if self._early is not None:
            self._early.look_soon()

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
        if self._early is not None:
            self._early.note()

    def _may_end(self) -> bool:
        """Whether the open group may end early. Behind one that is on its way it need not: the disk
        is at work, and asks for the next when it is durable."""
        return self._timed and not self._under_way and self._open.size <= BULK_BYTES

    def _accept(self, pending: PendingBatch) -> None:
        self._begin()
        source, batch, group = pending.source, pending.batch, self._open
        logical = pending.resumes and batch.reliable
        seen: RangeSet | NumberSet | None = None
        if logical:
            marks = self._store.sequences
            seen = (marks.rows if source.by_source else marks.seen)(*source.track)
            self._check_floor(pending, seen)
        partition = self._partition(source)
        taken = group.take(pending, partition, seen)
        if taken.rows and logical and source.run_number is not None:
            owner = self.numbers.owned(source, source.run_number)
            if owner is not None:
                group.own(partition, owner)
        counters = self.counters
        counters.rows += taken.rows
        counters.bytes += taken.size
        counters.deduped += taken.repeats
        self._observer.accepted(pending, taken.rows, taken.size, taken.repeats)
        if pending.tally is not None and batch.reliable:
            pending.tally.stored += taken.rows
        if group.size >= self._group_bytes:
            self.flush()

    def _accept_event(self, pending: PendingEvent) -> None:
        self._begin()
        event = pending.event
        for nacked in self._nacks.take(event.connection, event.channel_id):
            self._put(nacked)
        if pending.start:
            for gap in self.numbers.gaps_before(event, pending.start):
                self._put(PendingEvent(pending.listener, gap))
        tally = pending.tally
        if tally is not None and tally.deduped:
            if self.repeats.ends_otherwise(pending, tally):
                return
            self._begin()
            if not tally.recorded:
                tally.recorded = True
                self._put(PendingEvent(pending.listener, repeated_event(event, tally)))
        if event.kind != REPEATED:
            self._put(pending)
        if self._open.size >= self._group_bytes:
            self.flush()

    def _check_floor(self, pending: PendingBatch, seen: RangeSet | NumberSet) -> None:
        """Count what may have been stored before and is not known to be any more."""
        source = pending.source
        floor = self._store.sequences.floor(*source.track)
        if not floor:
            return
        here = self._open.marks.get(source.track, RangeSet())
        more = sum(
            stop - start
            for low, high, first in pending.logical
            for missing in seen.missing(first, min(floor, first + high - low))
            for start, stop in here.missing(*missing)
        )
        if more and not self.counters.dedupe_window_exceeded:
            log.warning(
                "dedupe_window_exceeded: producer %r sends numbers from %d on of channel %r, of "
                "which it is not remembered any more whether they are stored; they are stored",
                source.producer,
                pending.logical[0][2],
                source.channel,
            )
        self.counters.dedupe_window_exceeded += more

    def _put(self, pending: PendingEvent) -> None:
        self._open.record(pending, self.numbers.marks_of(pending.event, pending.boundary))
        self._observer.recorded(pending.event)
        self.counters.events += 1

    def _gather(self) -> None:
        """What was summed up joins the group, unless there is no room for events."""
        if self._stopped:
            self._rejections.over()
        if self._broken or (not self._stopped and (self._backlog or self._store.full)):
            if self._nacks or self._rejections.ready:
                self._retry_later()
            return
        for nacked in self._nacks.take_all():
            self._put(nacked)
        for summary in self._rejections.take():
            self._put(summary)

    def _partition(self, source: ChannelSource) -> int:
        return zlib.crc32(source.place.encode()) % self._partitions

    def _track(self, tracked: list[TrackedMessages]) -> None:
        for tracker, key, ranges, partition, _ in tracked:
            among = range(self._partitions) if partition is None else (partition,)
            tracker.note(key, ranges, {each: self._ends[each] for each in among})

    def _flush_if(self, opened: int) -> None:
        if opened == self._opened:
            self.flush()

    def _settle_after_last(self, group: OpenGroup) -> None:
        """Only repeats: their copies are durable with the last group that is under way."""
        self.repeats.compare(group)
        receipts = GroupCallbacks(group.callbacks.receipts)
        if self._under_way:
            self._under_way[max(self._under_way)].add(receipts)
        else:
            receipts.call()
        self._track(group.tracked)

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
            self._backlog.wake()
        if self._nacks or self._rejections.ready:
            self.flush()
