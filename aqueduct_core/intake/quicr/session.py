"""One connection of an intake that brings media: what of them is stored, and what is told of them.

An intake is a consumer and no relay: who asks it for a media, or subscribes to URLs, waits as for a
URL that nobody knows (Q14).
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from dataclasses import dataclass, field, replace

from aqueduct_core.engine.close_codes import CloseOrigin, how_ended
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.escape import escaped
from aqueduct_core.intake.quicr.event_recorder import MediaEvents, too_large
from aqueduct_core.intake.quicr.incoming import IncomingMedia
from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.intake.quicr.rows import NOBODY, UrlSource
from aqueduct_core.intake.sessions.context import Fault, SessionContext
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.sessions.wakeup import CallLater, Wakeup
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.intake.storage.channel_numbers import gaps_of, runs_of
from aqueduct_core.intake.storage.pending import PendingBatch, Receipt
from aqueduct_core.logs.json_lines import named
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Fragments,
    Notified,
    Posted,
    QuicrEvent,
    Ready,
    StartPoint,
    TransactionEnded,
)
from aqueduct_core.quicr.faults import INTERNAL_ERROR
from aqueduct_core.quicr.urls import url_text

log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenMedia:
    """A media on its way to us. ``held``: bytes, as they were counted last; ``finishing``: its end
    is recorded, and confirmed when durable."""

    media: IncomingMedia
    source: UrlSource
    tally: ChannelTally = field(default_factory=ChannelTally)
    holes: int = 0
    sure: bool = True
    held: int = 0
    finishing: bool = False


class MediaSession(Session[QuicrEngine]):
    """Stores the media that come on one connection; the sender of one learns that we have it all
    when that is durable."""

    def __init__(
        self,
        peer: str,
        engine: QuicrEngine,
        context: SessionContext,
        settings: MediaIntake,
        *,
        max_object: int,
        later: CallLater,
    ) -> None:
        super().__init__(peer, engine, context)
        self._settings = settings
        self._max_object = max_object
        self._wakeup = Wakeup(later, context.clock, self._wake)
        self._media: dict[int, OpenMedia] = {}
        self._finishing: dict[int, OpenMedia] = {}
        self._held_bytes = 0
        self._unstored: dict[int, int] = {}
        """Bytes of media that came in datagrams, for which there is no credit, by transaction."""
        self._recorder = MediaEvents(self, self.id, context.groups, context.wall_microseconds)
        self._admitted = False

    @property
    def channels(self) -> int:
        return len(self._media)

    @property
    def memory(self) -> int:
        return self._held_bytes + sum(self._unstored.values())

    def is_open(self, channel: int) -> bool:
        return channel in self._media

    def handle(self, events: list[QuicrEvent]) -> None:
        now = self._context.clock()
        touched: dict[int, OpenMedia] = {}
        for event in events:
            match event:
                case Fragments(stream, fragments, size) if stream in self._media:
                    touched[stream] = opened = self._media[stream]
                    opened.media.handle(fragments, size, now)
                case Fragments(stream, _, size):
                    self._engine.consumed(stream, size, now)
                case StartPoint(stream, start) if stream in self._media:
                    touched[stream] = opened = self._media[stream]
                    opened.media.start_at(start, now)
                case FinalPoint(stream, final, sure) if stream in self._media:
                    touched[stream] = opened = self._media[stream]
                    opened.sure = sure
                    opened.media.finish(final, now)
                case Ready():
                    self._admit()
                    self.ready(now)
                case Posted() | Notified():
                    self.answer(event, now)
                case TransactionEnded(stream) if stream in self._media:
                    self._deliver_all(touched, now)
                    touched = {}
                    self._end(event, now)
                case LinkLost():
                    self._deliver_all(touched, now)
                    touched = {}
                    self._close(event)
        self._deliver_all(touched, now)
        self._wake_later()

    @abstractmethod
    def answer(self, event: Posted | Notified, now: float) -> None:
        """What the peer began, or told of."""

    def ready(self, now: float) -> None:
        """The connection is there."""
        return

    def progressed(self, opened: OpenMedia) -> None:
        """Objects of a media came that are to be stored."""
        return

    def completed(self, opened: OpenMedia) -> None:
        """All of a media is durable; the connection may be over by then."""
        return

    def cancelled(self, opened: OpenMedia, now: float) -> None:
        """The peer has ended a media before its final point."""
        return

    def too_large(self, opened: OpenMedia, reason: str, now: float) -> None:
        """We have ended a media, as one of its objects is larger than we take."""
        return

    @property
    def next_at(self) -> float | None:
        """When `woken` is wanted, besides."""
        return None

    def woken(self, now: float) -> None:
        """It is time for what was waited for until `next_at`."""
        return

    def open(self, stream: int, url: bytes, *, datagram: bool) -> None:
        """A media comes on this transaction."""
        name, numbers = url_text(url), self._context.groups.numbers

        def known() -> RangeSet:
            stored = numbers.known(NOBODY, name)
            for first, stop in numbers.known(NOBODY, gaps_of(name)):
                stored.add(first, stop)
            return stored

        media = IncomingMedia(
            stream,
            datagram=datagram,
            settings=self._settings,
            known=known,
            ended=numbers.known(NOBODY, runs_of(name)),
            max_object=self._max_object,
        )
        opened = OpenMedia(media, UrlSource(name, NOBODY, self.id, stream))
        self._media[stream] = opened
        self._count(opened, media.size)
        self._recorder.opened(opened.source)

    def durable(self, receipts: list[Receipt]) -> None:
        if self._engine.closed is None:
            for receipt in receipts:
                self._release(receipt)
            self.kick()

    def dropped(self, receipt: Receipt) -> None:
        if self._engine.closed is None:
            self._release(receipt)
            self.kick()

    def recorded(self, channels: list[int]) -> None:
        super().recorded(channels)
        for channel in channels:
            opened = self._finishing.pop(channel)
            self._recorder.settled(opened.source)
            self.completed(opened)

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        """The first bytes of an object stay; the connection goes on."""
        tally.refused = False
        self._recorder.conflicts(source, tally.others)

    # the inside

    def _admit(self) -> None:
        self._admitted = True
        self._context.counters.accepted += 1
        self._recorder.connected()
        opened = named("connection-opened", id=self.id, peer=self.peer)
        log.info("%s opened", self, extra=opened)

    def _deliver_all(self, touched: dict[int, OpenMedia], now: float) -> None:
        for stream, opened in touched.items():
            self._deliver(opened, now)
            self._count(opened, opened.media.size)
            owed = opened.media.owed()
            if owed:
                self._engine.consumed(stream, owed, now)
        if touched:
            self.kick()

    def _count(self, opened: OpenMedia, held: int) -> None:
        self._held_bytes += held - opened.held
        opened.held = held

    def _deliver(self, opened: OpenMedia, now: float, *, over: bool = False) -> None:
        """Hand on what is ready of a media, and what is known not to come before it. ``over``: that
        is all that comes on this transaction."""
        media = opened.media
        found = media.missing(over=over)
        if found:
            self._recorder.missing(opened.source, found, media.start)
        conflicts = media.conflicts()
        if conflicts:
            self._recorder.conflicts(opened.source, [each.number for each in conflicts])
        for batch, numbers, covered, holes in media.arrived():
            if covered != opened.source.covered:
                opened.source = replace(opened.source, covered=covered)
            opened.holes += holes
            if media.datagram:
                stream = batch.channel
                self._unstored[stream] = self._unstored.get(stream, 0) + batch.size
            self._context.groups.add(
                PendingBatch(
                    listener=self,
                    batch=batch,
                    source=opened.source,
                    resumes=True,
                    timestamp=self._context.wall_microseconds(),
                    tally=opened.tally,
                    numbers=numbers,
                )
            )
            self.progressed(opened)
        if over and opened.tally.deduped:
            self._context.groups.flush()  # so that all is compared
        if media.final is not None and media.complete and not opened.finishing:
            opened.finishing = True
            self._finishing[opened.source.channel_id] = opened
            self._recorder.finished(
                opened.source, opened.tally, opened.holes, media.final, opened.sure
            )

    def _release(self, receipt: Receipt) -> None:
        held = self._unstored.get(receipt.channel)
        if held is None:
            self._engine.consumed(receipt.channel, receipt.size, self._context.clock())
        elif held > receipt.size:
            self._unstored[receipt.channel] = held - receipt.size
        else:
            del self._unstored[receipt.channel]

    def _end(self, ended: TransactionEnded, now: float) -> None:
        if ended.reason is EndReason.LOST:
            return  # of the whole connection, which is told of by itself
        opened = self._media.pop(ended.stream)
        self._count(opened, 0)
        self._deliver(opened, now, over=True)
        if opened.finishing:
            return
        if ended.object is not None:
            reason = too_large(ended.object, self._max_object)
        else:
            who = "its sender" if ended.by_peer else "the intake"
            reason = f"{who} gave it up before its final point"
        self._recorder.cancelled(opened.source, opened.tally, opened.holes, reason)
        if ended.object is not None:
            where = (self, escaped(opened.source.channel), reason)
            self._context.refusals.add("objects that are too large", "%s: media '%s': %s", *where)
            self.too_large(opened, reason, now)
        else:
            self.cancelled(opened, now)

    def _close(self, lost: LinkLost) -> None:
        now = self._context.clock()
        for opened in self._media.values():
            self._deliver(opened, now, over=True)
            if not opened.finishing:
                self._recorder.settled(opened.source)
        self._media.clear()
        self._unstored.clear()
        self._held_bytes = 0
        if self._admitted:
            self._recorder.disconnected(lost)
        ours = not lost.by_peer and lost.origin is CloseOrigin.TRANSPORT
        broken = ours and lost.code == INTERNAL_ERROR
        self._context.note_end(
            self,
            how_ended(lost, "intake"),
            admitted=self._admitted,
            fault=Fault.VIOLATION if broken else None,
        )
        self._context.ended(self)

    def _wake_later(self) -> None:
        due = [self.next_at, *(opened.media.wake_at for opened in self._media.values())]
        self._wakeup.by(min((at for at in due if at is not None), default=None))

    def _wake(self) -> None:
        if self._engine.closed is not None:
            return
        now = self._context.clock()
        due: dict[int, OpenMedia] = {}
        for stream, opened in self._media.items():
            wake_at = opened.media.wake_at
            if wake_at is not None and wake_at <= now:
                due[stream] = opened
                opened.media.tick(now)
        self._deliver_all(due, now)
        self.woken(now)
        self._wake_later()
