"""One line of Telehash: the channels of both sides, over datagrams of a link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aqueduct_core.engine.actions import Action, Admit, CloseLink
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import (
    Datagram,
    DatagramLimit,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkReady,
    LinkRoom,
    StreamBytes,
)
from aqueduct_core.telehash.channel import Channel, LineContext
from aqueduct_core.telehash.config import MAX_CHANNEL, TelehashConfig
from aqueduct_core.telehash.events import (
    CloseReason,
    LineReady,
    PacketsDropped,
    TelehashEvent,
)
from aqueduct_core.telehash.faults import (
    ChannelOver,
    CloseCode,
    PacketFault,
    PacketTooLarge,
    TelehashError,
    TooManyChannels,
)
from aqueduct_core.telehash.line_channels import LineChannels
from aqueduct_core.telehash.wire import channel_packets
from aqueduct_core.telehash.wire.channel_packets import decode
from aqueduct_core.telehash.wire.packets import PacketRefused

LEAST_DATAGRAM = 256
"""A peer that takes no longer ones takes none."""
MAX_ERR = 100
"""Characters of an ``err`` of ours."""


class TelehashEngine:
    """One end of a line; a `StorageEngine`.

    The line is over when ``closed`` is set. ``counts``: packets of the peer that were dropped so
    far, by why.

    Args:
        odd: this side opens channels 1, 3, 5 …, the peer 2, 4, 6 … (P3; `hashnames.dials_odd`).
    """

    def __init__(self, *, odd: bool, config: TelehashConfig | None = None) -> None:
        self.closed: LinkLost | None = None
        self.counts: dict[PacketFault, int] = {}
        self._config = config or TelehashConfig()
        self._context = LineContext(self._config)
        self._channels = LineChannels(self._context, odd=odd)
        self._next_channel = 1 if odd else 2
        self._admitted = False
        self._paused = False
        self._filled = not self._config.pad_opening
        self._acts: list[Action] = []
        self._now = 0.0

    # the contract of an engine

    def handle(self, input: Input, now: float) -> None:
        if self.closed is not None:
            return
        self._now = now
        egress = self._context.egress
        match input:
            case Datagram(data):
                self._datagram(data, now)
            case DatagramOutcome():
                egress.on_outcome(input)
            case LinkRoom(size):
                egress.on_room(size)
            case DatagramLimit(size):
                self._limit(size, now)
            case LinkReady(size, _, _):
                egress.ready = True
                self._context.events.append(LineReady())
                if self._config.admit_at_once:
                    self._admit()
                self._limit(size, now)
            case StreamBytes():
                self.shutdown(CloseCode.STREAM_OPENED, "there are no streams here", now)
            case LinkLost():
                self._over(input)

    def tick(self, now: float) -> None:
        if self.closed is not None:
            return
        self._now = now
        self._channels.tick(now)

    @property
    def wake_at(self) -> float | None:
        if self.closed is not None:
            return None
        context = self._context
        due = (context.soon.next, context.late.next, context.timers.next, self._channels.next)
        return min((at for at in due if at is not None), default=None)

    @property
    def footprint(self) -> Footprint:
        context = self._context
        return Footprint(
            self._channels.size
            + context.buffered.waiting
            + context.buffered.delivering
            + context.outgoing
            + context.egress.urgent_bytes
        )

    def actions(self) -> list[Action]:
        if self.closed is None:
            egress = self._context.egress
            self._acts += egress.actions(self._now)
            while egress.oversized:
                self._shrunk(egress.oversized.pop(), self._now)
                self._acts += egress.actions(self._now)
            self._channels.bury(self._now)
        taken, self._acts = self._acts, []
        return taken

    def events(self) -> list[TelehashEvent]:
        context = self._context
        with_events, context.with_events = context.with_events, {}
        for channel in with_events.values():
            channel.flush()
        faults, context.faults = context.faults, {}
        for fault, channels in faults.items():
            self.counts[fault] = self.counts.get(fault, 0) + len(channels)
            which = channels[0] if len(set(channels)) == 1 else None
            dropped = PacketsDropped(fault, len(channels), which)
            context.events.insert(self._before_end(), dropped)
        taken, context.events = context.events, []
        return taken

    # the application

    @property
    def limit(self) -> int:
        """Bytes of a packet that fit now; see `packet_size`."""
        return self._context.egress.limit

    def packet_size(
        self,
        *,
        type: str | None = None,
        js: Mapping[str, Any] | None = None,
        body: bytes = b"",
        end: bool = False,
        reliable: bool = True,
        channel: int = MAX_CHANNEL,
    ) -> int:
        """Bytes of a packet with this content at most: what is compared with `limit`.

        Raises:
            ValueError: ``js`` is not to be written as JSON.
        """
        own = type is None or type.startswith("_")
        fields = channel_packets.content_fields(type=type, own=own, js=js, end=end)
        return channel_packets.content_size(channel, fields, body, reliable=reliable)

    def open(
        self,
        type: str,
        *,
        reliable: bool,
        js: Mapping[str, Any] | None = None,
        body: bytes = b"",
        end: bool = False,
        now: float,
    ) -> int:
        """Open a channel; its first packet has the type, and seq 0 where it is reliable (T1, P4).

        Raises:
            TelehashError: the line is over.
            TooManyChannels: all numbers are used.
            PacketTooLarge: the first packet does not fit.
            ValueError: there is no type, or ``js`` is not to be written as JSON.
        """
        if self.closed is not None:
            raise TelehashError("the line is over")
        if not type:
            raise ValueError("a channel has a type")
        number = self._next_channel
        if number > MAX_CHANNEL:
            raise TooManyChannels(f"channels go to {MAX_CHANNEL}: begin another line")
        self._now = now
        channel = Channel(number, type, self._context, reliable=reliable, ours=True)
        fields = channel.fields(type, js, end=end)
        wanted = min(self._config.pad_opening, self.limit)
        fields += b" " * (wanted - channel.packet_size(fields, body))
        channel.send(fields, body, end=end, now=now)
        self._channels.add(channel)
        self._next_channel += 2
        return number

    def send(
        self,
        channel: int,
        *,
        js: Mapping[str, Any] | None = None,
        body: bytes = b"",
        end: bool = False,
        now: float,
    ) -> int | None:
        """Send a packet; its seq, or None where the channel is unreliable. ``end``: the last one of
        ours (P5).

        Raises:
            TelehashError: the line is over.
            ChannelOver: the channel is, or has ended in either direction (T18).
            WindowFull: `room` is 0 (T4).
            PacketTooLarge: it does not fit (P1).
            SequenceExhausted: only an end may have the next seq (T3).
            ValueError: ``js`` is not to be written as JSON.
        """
        if self.closed is not None:
            raise TelehashError("the line is over")
        found = self._channels.get(channel)
        if found is None:
            raise ChannelOver(f"channel {channel} is over, or never was")
        self._now = now
        return found.send(found.fields(None, js, end=end), body, end=end, now=now)

    def room(self, channel: int) -> int:
        """Packets that `send` takes now; where it is 0, `ChannelWritable` follows, unless the
        channel ends."""
        found = self._channels.get(channel)
        return 0 if found is None else found.room

    def heard_at(self, channel: int) -> float | None:
        """When the last packet with a number came on a reliable channel, whether it was new or not;
        None: there is no such channel."""
        found = self._channels.get(channel)
        return None if found is None else found.heard_at

    def done(self, channel: int, upto: int, now: float) -> None:
        """The application has processed the packets below ``upto`` of a reliable channel: they are
        acked shortly (T6, T7)."""
        self.stored(channel, 0, upto, reliable=True, now=now)

    def fail(self, channel: int, err: str, now: float) -> None:
        """Fail a channel: the peer learns why, both directions are dropped (P6, T2)."""
        found = self._channels.get(channel)
        if found is not None:
            self._now = now
            text = err[:MAX_ERR].encode(errors="replace").decode()
            found.fail(CloseReason.FAILED, text)
            self._channels.bury(now)

    def stored(self, channel: int, first: int, stop: int, *, reliable: bool, now: float) -> None:
        """As `done`, in any order: the ack follows what is without a gap. The end of the peer is
        one of its packets, and acked as such."""
        found = self._channels.get(channel)
        if found is not None and reliable:
            self._now = now
            found.done(first, stop, now)
            self._channels.bury(now)

    def refused(self, channel: int, first: int, stop: int, now: float) -> None:
        """Nobody is told: packets without a number may be lost anywhere."""

    def consumed(self, channel: int, size: int, now: float) -> None:
        """Nobody is told: the window is the credit, and acks move it."""

    def confirm(self, channel: int, now: float) -> None:
        """Nobody is told: see `stored`."""

    def pause(self) -> None:
        """Take no packets in until `resume`: they are lost, and those with a number come again."""
        self._paused = True

    def resume(self, now: float) -> None:
        self._paused = False

    def shutdown(self, code: int, reason: str, now: float) -> None:
        if self.closed is None:
            self._now = now
            self._acts = [*self.actions(), CloseLink(code, reason)]
            self._over(LinkLost(code, reason, by_peer=False))

    # packets

    def _datagram(self, data: bytes, now: float) -> None:
        if self._paused:
            self._context.drop(PacketFault.PAUSED, None)
            return
        try:
            packet = decode(data)
        except PacketRefused as refused:
            self._context.drop(refused.fault, refused.channel)
            return
        channel = self._channels.of_packet(packet, now)
        if channel is not None:
            channel.handle(packet, now)
            if not self._admitted and channel.heard:
                self._admit()
            if not self._filled and channel.ours and channel.heard:
                self._fill(channel.number)
            if self._context.over:
                self._channels.bury(now)

    # the inside

    def _admit(self) -> None:
        self._admitted = True
        self._acts.append(Admit())

    def _fill(self, channel: int) -> None:
        """The peer has used up some of what it may answer for this ack: a packet that is as long as
        any, so that its next one may be, too. Once: with our ack of that one we are no stranger."""
        self._filled = True
        size = min(self._config.pad_opening, self.limit)
        self._context.egress.urgent(channel_packets.encode_filler(channel, size))

    def _limit(self, size: int, now: float) -> None:
        self._context.egress.on_limit(size)
        if size < LEAST_DATAGRAM:
            reason = f"the peer takes no datagrams of {LEAST_DATAGRAM} bytes"
            self.shutdown(CloseCode.NO_DATAGRAMS, reason, now)

    def _shrunk(self, number: int, now: float) -> None:
        """A packet that was taken does not fit any more."""
        channel = self._channels.get(number)
        if channel is not None:
            size = channel.next_size() or 0
            channel.fail(CloseReason.FAILED, str(PacketTooLarge(size, self.limit)))

    def _over(self, lost: LinkLost) -> None:
        self._channels.lost()
        self.closed = lost
        context = self._context
        context.egress.clear()
        context.events.append(lost)

    def _before_end(self) -> int:
        """Where an event belongs that is of no channel: `LinkLost` is the last one."""
        events = self._context.events
        return len(events) - (self.closed is not None)
