"""One line of an intake: what comes on its channels is stored, and acked when it may be.

With ``ackLevel=stored`` a packet is acked when its group is durable; with ``committed`` when every
cursor has passed it, too: the ack of the protocol is the outlet of a `CommitTracker`. Nothing else
acks, so no peer hears of a packet that could still be lost.
"""

from __future__ import annotations

import logging

from aqueduct_core.engine.close_codes import CloseOrigin, how_ended
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.escape import escaped
from aqueduct_core.intake.sessions.context import Fault, SessionContext
from aqueduct_core.intake.sessions.session import Session
from aqueduct_core.intake.sessions.wakeup import CallLater, Wakeup
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.intake.storage.commit_tracker import CommitTracker
from aqueduct_core.intake.storage.pending import PendingBatch, Receipt
from aqueduct_core.intake.telehash.channels import LONGEST_TYPE, check_type
from aqueduct_core.intake.telehash.event_recorder import EventBudget, LineEvents
from aqueduct_core.intake.telehash.marks import runs_of
from aqueduct_core.intake.telehash.rows import CANCELLED, FAILED, TIMEOUT, TelehashSource
from aqueduct_core.intake.telehash.settings import TelehashIntake
from aqueduct_core.intake.telehash.taken_channels import TakenChannel, TakenChannels
from aqueduct_core.logs.json_lines import named
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    CloseReason,
    LineReady,
    PacketBatch,
    PacketsDropped,
    TelehashEvent,
)
from aqueduct_core.telehash.hashnames import hashname_of

log = logging.getLogger(__name__)

ALL = 1 << 30
"""Of what is committed: each range of it is acked at once."""

SILENCE = 5.0
"""Seconds without a packet of a channel after which its peer does not send it again any more: it
does so every 2 s while it waits for an ack (T16)."""

LOOK_SECONDS = 1.0
"""Between two looks at what waits for its ack."""

LONGEST_ERR = 60
"""Characters of what a peer gives as the reason, before what we have to say of it."""

NOT_TAKEN = "type not taken"
"""The ``err`` for it (T2): short, as it must not be longer than what it answers."""


class LineSession(Session[TelehashEngine]):
    """Takes the channels of one line that have one of our types, reliable ones and others.

    Args:
        budget: of events, which all lines of the intake share.
        later: as of an event loop.
    """

    def __init__(
        self,
        peer: str,
        engine: TelehashEngine,
        context: SessionContext,
        settings: TelehashIntake,
        *,
        budget: EventBudget,
        later: CallLater,
    ) -> None:
        super().__init__(peer, engine, context)
        self.tracker: CommitTracker | None = None
        """What of the line is committed; with ``ackLevel=committed`` (a `ReceiptWriter`)."""
        self._settings = settings
        self._types = frozenset(settings.types)
        self._channels = TakenChannels()
        self._unstored = 0
        self._recorder = LineEvents(
            self, self.id, context.groups, context.wall_microseconds, budget
        )
        self._admitted = False
        self._resting = False
        self._rested_at = 0.0
        """Until then we have listened to nobody."""
        self._wakeup = Wakeup(later, context.clock, self._wake)
        if settings.channels.ack_level == "committed":
            self.tracker = CommitTracker(self._committed)
            context.commits.join(self.tracker)

    @property
    def channels(self) -> int:
        return len(self._channels)

    @property
    def memory(self) -> int:
        return self._unstored + self._channels.memory

    def is_open(self, channel: int) -> bool:
        return channel in self._channels

    def handle(self, events: list[TelehashEvent]) -> None:
        for event in events:
            match event:
                case PacketBatch():
                    self._store(event)
                case ChannelOpened():
                    self._opened(event)
                case ChannelClosed():
                    self._channel_closed(event)
                case PacketsDropped(fault, count, channel):
                    of = "" if channel is None else f" of channel {channel}"
                    line = ("%s: %d packets%s dropped: %s", self, count, of, fault.value)
                    self._context.refusals.add("packets dropped", *line, level=logging.INFO)
                case LineReady():
                    self.ready(self._context.clock())
                case LinkLost():
                    self._line_lost(event)
        self.kick()

    def ready(self, now: float) -> None:
        """The line is there."""
        return

    def received(self, channel: TakenChannel) -> None:
        """Packets of a channel came that are to be stored."""
        return

    def finishing(self, channel: TakenChannel) -> None:
        """The end of a channel is in the group; `recorded` follows."""
        return

    def completed(self, channel: TakenChannel) -> None:
        """All of a channel is acked, its end too."""
        return

    def woken(self, now: float) -> None:
        """Time has passed: there may be something to do that was waited for."""
        return

    def gave_up(self, channel: TakenChannel, reason: str) -> None:
        """A channel is over before its end."""
        return

    def durable(self, receipts: list[Receipt]) -> None:
        if self._engine.closed is not None:
            return
        for receipt in receipts:
            self._unstored -= receipt.size
            channel = self._channels.get(receipt.channel)
            if channel is not None and receipt.reliable:
                channel.stored = max(channel.stored, receipt.stop)
                if self.tracker is None:
                    self._ack(channel, receipt.first, receipt.stop)
        self.kick()

    def dropped(self, receipt: Receipt) -> None:
        """What is reliable was withdrawn, for its line is over."""
        if self._engine.closed is None:
            self._unstored -= receipt.size
            channel = self._channels.get(receipt.channel)
            if channel is not None and not receipt.reliable:
                self._recorder.dropped(channel.source, receipt.first, receipt.stop)

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        """The packets that are stored stay; the channel is failed, and the line goes on."""
        channel = self._channels.pop(source.channel_id)
        if channel is None or self._engine.closed is not None:
            return
        self._context.counters.not_repeatable += 1
        line = ("%s: channel %d failed: %s", self, source.channel_id, reason)
        self._context.refusals.add("channels refused", *line)
        self._recorder.unrepeatable(channel.source, tally, reason)
        self._fail(channel, f"a mark comes again, and its {reason}")

    def pause(self) -> None:
        self._resting = True
        super().pause()

    def resume(self) -> None:
        self._resting = False
        self._rested_at = self._context.clock()
        super().resume()

    # the inside

    @property
    def name(self) -> str:
        """Who the peer is: its hashname, or its address where that is not known."""
        if self._settings.peer_hashname is not None:
            return self._settings.peer_hashname
        shown = None if self._driver is None else self._driver.peer_certificate_fingerprint
        return self.peer if shown is None else hashname_of(shown)

    def _admit(self) -> None:
        """With its first channel: over plain UDP anybody can have sent a first packet, in the name
        of any address, so that its line counts as one more channel of which events tell."""
        if self._recorder.peer:
            return
        self._context.counters.accepted += 1
        shown = self._settings.carrier == "quic"
        if self._recorder.connected(self.name, self._context.clock(), shown=shown):
            self._admitted = True
            opened = named("connection-opened", id=self.id, peer=self.peer)
            log.info("%s opened", self, extra=opened)

    def _takes(self, kind: str) -> bool:
        if self._types:
            return kind in self._types
        try:
            return check_type(kind).startswith("_")
        except ValueError:
            return False

    def _opened(self, opened: ChannelOpened) -> None:
        self._admit()
        now = self._context.clock()
        if not self._takes(opened.type):
            self._context.counters.rejected += 1
            kind = escaped(opened.type)[:LONGEST_TYPE]
            what = f"the type {kind} is not taken"
            self._recorder.refused(kind, opened.channel, what)
            self._engine.fail(opened.channel, NOT_TAKEN, now)
            return
        self.add_channel(opened.channel, opened.type, reliable=opened.reliable)

    def add_channel(self, number: int, kind: str, *, reliable: bool, ours: bool = False) -> None:
        """A channel flows to us."""
        self._admit()
        source = TelehashSource(kind, self._recorder.peer, self.id, number)
        self._channels.add(TakenChannel(source, reliable, ours))
        self._recorder.opened(source, self._context.clock(), ours=ours)

    def _store(self, batch: PacketBatch) -> None:
        channel = self._channels.get(batch.channel)
        if channel is None:
            return
        now, timestamp = self._context.clock(), self._context.wall_microseconds()
        channel.hand(batch.first + batch.count, now)
        self.received(channel)
        for run in runs_of(batch):
            if batch.channel not in self._channels:
                break  # it was failed for what came before
            self._unstored += run.batch.size
            self._context.groups.add(
                PendingBatch(
                    listener=self,
                    batch=run.batch,
                    source=channel.source_of(run.writer),
                    resumes=run.writer is not None,
                    timestamp=timestamp,
                    receipts=self if channel.reliable else None,
                    tally=channel.tally,
                    numbers=run.numbers,
                )
            )
        if batch.end and channel.tally.deduped:
            self._context.groups.flush()  # so that all is compared before the channel has finished
        if batch.end and batch.channel in self._channels:
            channel.finishing = True
            self.finishing(channel)
            self._recorder.finished(channel.source, channel.tally)
        if channel.reliable:
            self._wakeup.by(now + LOOK_SECONDS)

    def _ack(self, channel: TakenChannel, first: int, stop: int) -> None:
        channel.ack(stop)
        now = self._context.clock()
        self._engine.stored(channel.source.channel_id, first, stop, reliable=True, now=now)

    def _committed(self) -> None:
        assert self.tracker is not None
        for key, ranges in self.tracker.take(ALL):
            channel = self._channels.get(key.id or 0)
            if channel is not None and self._engine.closed is None:
                for first, stop in ranges:
                    self._ack(channel, first, stop)
        self.kick()

    def _fail(self, channel: TakenChannel, err: str) -> None:
        """By us; the channel is taken out of those that are open."""
        self._engine.fail(channel.source.channel_id, err, self._context.clock())
        self._recorder.closed(channel.source, channel.tally)
        self.gave_up(channel, err)
        self.kick()

    def _channel_closed(self, closed: ChannelClosed) -> None:
        if closed.reason is CloseReason.LOST:
            return  # of the whole line, which is told of by itself
        channel = self._channels.pop(closed.channel)
        if channel is None:
            return
        counters = self._context.counters
        if channel.finishing and not channel.unacked:
            counters.finished += 1
            self.completed(channel)
        elif closed.reason is CloseReason.TIMED_OUT:
            timeout = self._settings.channels.channel_timeout
            self._end(channel, TIMEOUT, f"the peer has acked nothing for {timeout:g} s")
        elif closed.reason is CloseReason.FAILED:
            counters.cancelled += 1
            reason = f"the peer failed it: {escaped(closed.err or '')[:LONGEST_ERR]}"
            if channel.unacked:
                reason += f"; {self._why_unacked(channel)}"
                self._note_given_up(channel)
            self._end(channel, CANCELLED, reason)
        else:
            self._end(channel, FAILED, "it ended without an end of what its peer sends")
        self._recorder.closed(channel.source, channel.tally)

    def _end(self, channel: TakenChannel, kind: str, reason: str) -> None:
        """It is over before its end."""
        self._recorder.ended(kind, channel.source, channel.tally, reason, channel.unacked)
        self.gave_up(channel, reason)

    def _line_lost(self, lost: LinkLost) -> None:
        if self.tracker is not None:
            self._context.commits.leave(self.tracker)
        self._context.groups.withdraw(self)
        unacked, channels = self._channels.unacked
        for channel in self._channels.clear():
            self._recorder.closed(channel.source, channel.tally)
        self._unstored = 0
        self._recorder.disconnected(lost, unacked, channels)
        ours = not lost.by_peer and lost.origin is CloseOrigin.APPLICATION and lost.code
        self._context.note_end(
            self,
            how_ended(lost, "intake"),
            admitted=self._admitted,
            fault=Fault.VIOLATION if ours else None,
        )
        self._context.ended(self)

    # peers that give up

    def _wake(self) -> None:
        """Look whose peer has waited too long for its ack, and has fallen silent."""
        if self._engine.closed is not None:
            return
        now = self._context.clock()
        if self._resting:
            self._rested_at = now
        timeout = self._settings.channels.channel_timeout
        waiting = False
        for channel in list(self._channels):
            since = channel.waits_since
            waiting = waiting or since is not None
            if since is None or now - since < timeout:
                continue
            heard = self._engine.heard_at(channel.source.channel_id) or 0.0
            if now - max(heard, self._rested_at) < min(SILENCE, timeout):
                continue
            self._channels.pop(channel.source.channel_id)
            reason = f"the peer is silent, and has given it up: {self._why_unacked(channel)}"
            self._recorder.ended(TIMEOUT, channel.source, channel.tally, reason, channel.unacked)
            self._note_given_up(channel)
            self._fail(channel, "timeout")
        if waiting:
            self._wakeup.by(now + LOOK_SECONDS)
        self.woken(now)

    def _why_unacked(self, channel: TakenChannel) -> str:
        packets = f"{channel.unacked} packets"
        if self._is_late(channel):
            return (
                f"{packets} waited for their commit; make triggers shorter, or set ackLevel=stored"
            )
        return f"{packets} waited to be stored"

    def _is_late(self, channel: TakenChannel) -> bool:
        """Whether queries keep its packets waiting, and not the disk."""
        return self.tracker is not None and channel.stored > channel.acked

    def _note_given_up(self, channel: TakenChannel) -> None:
        """Status and log say so of commits; of a spool without room they do anyhow."""
        if self._is_late(channel):
            self._context.late_commits.note(self._context.clock())
