"""Group commit: what connections received goes to the spool in groups, and is acked when durable.

A run that is offered is *accepted* into the open group, or *held back* while the spool is full.
The group ends when it is large enough or old enough; then it becomes one record batch for each
partition and goes to the spool with the watermarks that become true with it. When the spool says
that a group is durable, everybody who had a part in it is told (`Party.durable`), and only then
acks messages and returns credit.

Logical numbers that are stored already, or stand in the open group, are not stored again. They
are acked with the group that is open now: groups become durable in order, so the earlier copy is
durable by then.
"""

from __future__ import annotations

import logging
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import pyarrow as pa

from aqueduct_core.aqueduct.news import Run
from aqueduct_core.errors import AqueductError, SpoolFailed
from aqueduct_core.intake.receipts import Book, Key
from aqueduct_core.intake.records import Piece, Source, to_batch
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool import Mark

log = logging.getLogger(__name__)

RETRY = 0.05
"""Seconds between two looks for room while the spool is full."""

MAX_BATCH_BYTES = 1 << 30
"""Payload bytes of one record batch; Arrow's ``binary`` ends at 2 GiB."""


class Receipt(NamedTuple):
    """Messages ``[first, stop)`` of a channel (wire numbers), of ``size`` bytes on the wire."""

    channel: int
    reliable: bool
    first: int
    stop: int
    size: int


class Party(Protocol):
    """Who offers runs: one connection."""

    def durable(self, receipts: list[Receipt]) -> None:
        """These messages are on disk, from this connection or an earlier one."""

    def dropped(self, receipt: Receipt) -> None:
        """These messages will not be stored; they must not be acked."""


class Store(Protocol):
    """What is needed of the spool."""

    @property
    def group(self) -> int: ...
    @property
    def full(self) -> bool: ...
    def append(
        self, partition: int, batch: pa.RecordBatch, marks: Sequence[Mark] = ()
    ) -> tuple[int, int]: ...
    def flush(self) -> bool: ...
    def seen(self, producer: str, channel: str) -> RangeSet: ...
    def seen_of(self, producer: str) -> Iterable[tuple[str, RangeSet]]: ...
    def ends(self) -> list[int]: ...


class Offer(NamedTuple):
    """A run with its origin. ``resumes``: the producer keeps logical numbers of this channel.
    ``book``: where its producer's receipts are kept, if it wants any."""

    party: Party
    run: Run
    source: Source
    resumes: bool
    timestamp: int
    book: Book | None = None

    @property
    def receipt(self) -> Receipt:
        run = self.run
        return Receipt(run.channel, run.reliable, run.first, run.first + run.count, run.size)


@dataclass(slots=True)
class Counters:
    """Messages since the start of the process."""

    rows: int = 0
    bytes: int = 0
    deduped: int = 0
    unreliable_dropped: int = 0
    withdrawn: int = 0
    groups: int = 0


class _Noted(NamedTuple):
    """Messages that are committed when ``partition`` is, up to its end after this group."""

    book: Book
    key: Key
    ranges: tuple[Range, ...]
    partition: int


@dataclass(slots=True)
class _Group:
    size: int = 0
    pieces: dict[int, list[Piece]] = field(default_factory=dict)
    marks: dict[tuple[str, str], RangeSet] = field(default_factory=dict)
    receipts: list[tuple[Party, Receipt]] = field(default_factory=list)
    noted: list[_Noted] = field(default_factory=list)


class GroupCommit:
    """The open group of an intake, and the groups on their way to the disk.

    Args:
        store: the spool; the caller hands its news on to `made_durable`.
        latest: the newest stored timestamp of each partition, microseconds; none goes below.
        group_bytes, group_seconds: what ends a group.
        later: ``later(seconds, call)`` as of an event loop.
        failed: told once when the spool cannot go on; nothing is stored or acked afterwards.
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
    ) -> None:
        self.counters = Counters()
        self._store = store
        self._latest = list(latest)
        self._group_bytes = group_bytes
        self._group_seconds = group_seconds
        self._later = later
        self._failed = failed
        self._broken = False
        self._stopped = False
        self._open = _Group()
        self._opened = 0
        self._ends = list(store.ends())
        self._under_way: dict[int, list[tuple[Party, Receipt]]] = {}
        self._held: deque[Offer] = deque()
        self._unwritten = False
        self._retrying = False

    @property
    def idle(self) -> bool:
        """Everything that was accepted is durable."""
        return not (self._open.receipts or self._under_way)

    @property
    def holding(self) -> bool:
        """Runs wait for room in the spool."""
        return bool(self._held)

    def offer(self, offer: Offer) -> None:
        """Store a run. While the spool is full it waits (bounded by the credit of its peer),
        except datagrams: for these no credit exists, so they are dropped and will be nacked."""
        if self._broken or self._stopped:
            return
        if not (self._held or self._store.full):
            self._accept(offer)
        elif offer.run.reliable:
            self._held.append(offer)
            self._retry_later()
        else:
            self.counters.unreliable_dropped += offer.run.count
            offer.party.dropped(offer.receipt)

    def withdraw(self, party: Party, channel: int | None = None) -> None:
        """Drop what is held back of a channel that was cancelled, or of a whole connection."""
        kept: deque[Offer] = deque()
        for offer in self._held:
            if offer.party is party and channel in (None, offer.run.channel):
                self.counters.withdrawn += offer.run.count
                offer.party.dropped(offer.receipt)
            else:
                kept.append(offer)
        self._held = kept

    def recall(self, book: Book, producer: str) -> None:
        """Note in ``book`` what this identity has stored or has in the open group by now."""
        group = self._open
        known = {channel: RangeSet(seen) for channel, seen in self._store.seen_of(producer)}
        for (owner, channel), marks in group.marks.items():
            if owner == producer:
                for first, stop in marks:
                    known.setdefault(channel, RangeSet()).add(first, stop)
        noted = [
            _Noted(book, Key(channel, True), tuple(ranges), self._partition(producer, channel))
            for channel, ranges in known.items()
            if ranges
        ]
        if group.receipts:
            group.noted += noted
        else:
            self._note(noted)

    def stop(self) -> None:
        """Take nothing more: later runs, and those held back, are neither stored nor acked. What
        was accepted goes on its way."""
        self._stopped = True
        self._held.clear()
        self.flush()

    def flush(self) -> None:
        """End the open group and send it on its way."""
        group, self._open = self._open, _Group()
        self._opened += 1
        if not group.receipts or self._broken:
            return
        if not group.pieces:
            self._settle_after_last(group.receipts)
            self._note(group.noted)
            return
        try:
            number = self._store.group
            for partition, pieces in group.pieces.items():
                for part in _bounded(pieces):
                    _, self._ends[partition] = self._store.append(
                        partition, to_batch(part), _marks(part)
                    )
            self._under_way.setdefault(number, []).extend(group.receipts)
            self._note(group.noted)
            self._write()
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
        settled: list[tuple[Party, Receipt]] = []
        for number in [number for number in self._under_way if number <= group]:
            settled += self._under_way.pop(number)
        _tell(settled)

    def fail(self, error: AqueductError) -> None:
        """Store and ack nothing from now on; what is not durable stays un-acked."""
        if not self._broken:
            self._broken = True
            self._failed(error)

    def _accept(self, offer: Offer) -> None:
        source, run = offer.source, offer.run
        group = self._open
        if not group.receipts:
            opened = self._opened
            self._later(self._group_seconds, lambda: self._flush_if(opened))
        group.receipts.append((offer.party, offer.receipt))
        partition = self._partition(source.producer, source.channel)
        if offer.book is not None:
            group.noted.append(_noted(offer.book, offer, partition))
        for low, high in self._wanted(offer):
            timestamp = self._latest[partition] = max(offer.timestamp, self._latest[partition])
            piece = Piece(source, run, low, high, timestamp, offer.resumes)
            group.pieces.setdefault(partition, []).append(piece)
            self.counters.rows += high - low
            self.counters.bytes += piece.size
        group.size += run.size
        if group.size >= self._group_bytes:
            self.flush()

    def _partition(self, producer: str, channel: str) -> int:
        return zlib.crc32(f"{producer}\0{channel}".encode()) % len(self._latest)

    def _note(self, noted: list[_Noted]) -> None:
        for book, key, ranges, partition in noted:
            book.note(key, ranges, partition, self._ends[partition])

    def _wanted(self, offer: Offer) -> list[tuple[int, int]]:
        """The index ranges of the run that are not stored yet; they are marked as such."""
        run, source = offer.run, offer.source
        if not (offer.resumes and run.reliable):
            return [(0, run.count)]
        base = source.number(run, 0)
        seen = self._store.seen(source.producer, source.channel)
        marks = self._open.marks.setdefault((source.producer, source.channel), RangeSet())
        fresh = [
            new
            for first, stop in seen.missing(base, base + run.count)
            for new in marks.add(first, stop)
        ]
        marks.add(0, source.floor)
        wanted = [(first - base, stop - base) for first, stop in fresh]
        self.counters.deduped += run.count - sum(high - low for low, high in wanted)
        return wanted

    def _flush_if(self, opened: int) -> None:
        if opened == self._opened:
            self.flush()

    def _settle_after_last(self, receipts: list[tuple[Party, Receipt]]) -> None:
        """Only repeats: their copies are durable with the last group that is under way."""
        if self._under_way:
            self._under_way[max(self._under_way)] += receipts
        else:
            _tell(receipts)

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
        while self._held and not self._store.full and not self._broken:
            self._accept(self._held.popleft())
        if self._held:
            self._retry_later()


def _bounded(pieces: list[Piece]) -> list[list[Piece]]:
    """The pieces in lists of at most `MAX_BATCH_BYTES` (a longer piece stands alone)."""
    lists: list[list[Piece]] = [[]]
    size = 0
    for piece in pieces:
        if lists[-1] and size + piece.size > MAX_BATCH_BYTES:
            lists.append([])
            size = 0
        lists[-1].append(piece)
        size += piece.size
    return lists


def _marks(pieces: list[Piece]) -> list[Mark]:
    """What becomes stored with exactly these pieces: a torn group keeps whole batches only."""
    stored: dict[tuple[str, str], RangeSet] = {}
    for piece in pieces:
        if piece.resumes and piece.run.reliable:
            ranges = stored.setdefault((piece.source.producer, piece.source.channel), RangeSet())
            first = piece.source.number(piece.run, piece.low)
            ranges.add(first, first + piece.high - piece.low)
            ranges.add(0, piece.source.floor)
    return [Mark(*key, first, stop) for key, ranges in stored.items() for first, stop in ranges]


def _noted(book: Book, offer: Offer, partition: int) -> _Noted:
    run, source = offer.run, offer.source
    logical = offer.resumes and run.reliable
    key = Key(source.channel, run.reliable, None if logical else source.channel_id)
    first = run.first + (source.start if logical else 0)
    return _Noted(book, key, ((first, first + run.count),), partition)


def _tell(settled: list[tuple[Party, Receipt]]) -> None:
    by_party: dict[int, tuple[Party, list[Receipt]]] = {}
    for party, receipt in settled:
        by_party.setdefault(id(party), (party, []))[1].append(receipt)
    for party, receipts in by_party.values():
        party.durable(receipts)
