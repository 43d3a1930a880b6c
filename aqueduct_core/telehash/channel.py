"""One channel: its two halves, when it acks, and when it is over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from aqueduct_core.primitives.timers import DelayQueue, Timers
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.egress import PacketEgress
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelWritable,
    CloseReason,
    PacketsAcked,
    TelehashEvent,
)
from aqueduct_core.telehash.faults import ChannelOver, PacketFault, PacketTooLarge, WindowFull
from aqueduct_core.telehash.receiving import BufferedBytes, ReceivingHalf
from aqueduct_core.telehash.sending import SendingHalf, UnreliableQueue
from aqueduct_core.telehash.wire import channel_packets
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket

ACK_WITHIN = 0.9
"""Seconds from a packet with a seq to an ack, of whatever was processed by then; the protocol says
one second (T10)."""
ACK_EARLY = 4
"""So many parts of the window are not held back: when one of them was processed, the ack goes."""
_ENDS = (CloseReason.ENDED, CloseReason.PEER_ENDED)
_MISS_ENTRY = 11
_MISS_BYTES = len(b',"miss":[]')


class LineContext:
    """What the channels of one line share.

    ``soon`` and ``late``: numbers of channels that are to ack after `TelehashConfig.ack_delay`, or
    within a second; ``timers`` of channels, which may be too early.
    """

    def __init__(self, config: TelehashConfig) -> None:
        self.config = config
        self.buffered = BufferedBytes(config.receive_bytes)
        self.egress = PacketEgress(config.max_packet, config.write_ahead)
        self.soon: DelayQueue[int] = DelayQueue(config.ack_delay)
        self.late: DelayQueue[int] = DelayQueue(ACK_WITHIN)
        self.timers: Timers[int] = Timers()
        self.events: list[TelehashEvent] = []
        self.with_events: dict[int, Channel] = {}
        """Those that have batches or acks to be told of."""
        self.faults: dict[PacketFault, list[int | None]] = {}
        self.outgoing = 0
        """Bytes that wait for the link or for acks."""
        self.over: list[Channel] = []
        """Those that have closed just now."""

    def drop(self, fault: PacketFault, channel: int | None) -> None:
        """Count a packet of the peer that was dropped."""
        self.faults.setdefault(fault, []).append(channel)


class Channel:
    """``type`` is None as long as the opening packet is missing. ``closed`` once it is over.

    Args:
        ours: opened by this side.
    """

    def __init__(
        self, number: int, type: str | None, context: LineContext, *, reliable: bool, ours: bool
    ) -> None:
        config = context.config
        self.number = number
        self.type = type
        self.reliable = reliable
        self.ours = ours
        self.closed: ChannelClosed | None = None
        self.failure: bytes | None = None
        """The packet that told the peer of our `fail`."""
        self.receiving = ReceivingHalf(number, config.receive_window, context.buffered)
        self._context = context
        self._sending: SendingHalf | UnreliableQueue = (
            SendingHalf(config.window, config.channel_timeout)
            if reliable
            else UnreliableQueue(config.window)
        )
        self._acked: int | None = None  # to be told
        self._full = False
        self._asked_bare = False  # a miss without an ack was sent
        self._heard_at = 0.0
        self._owes_ack = False  # something with a seq came since the last one
        self._give_up_at = math.inf

    @property
    def heard_at(self) -> float:
        """When the last packet with a seq came, whether it was new or not."""
        return self._heard_at

    @property
    def heard(self) -> bool:
        """The peer has acked what we sent, so it receives at its address."""
        return isinstance(self._sending, SendingHalf) and self._sending.acked > 0

    @property
    def _finished(self) -> bool:
        """The application has processed the end of the peer (P5)."""
        receiving = self.receiving
        return receiving.end_seq is not None and receiving.done > receiving.end_seq

    # commands

    @property
    def room(self) -> int:
        room = 0 if self._finished else self._sending.room
        self._full = not room
        return room

    def packet_size(self, fields: bytes, body: bytes) -> int:
        return channel_packets.content_size(self.number, fields, body, reliable=self.reliable)

    def fields(self, type: str | None, js: Mapping[str, Any] | None, *, end: bool) -> bytes:
        own = self.type is not None and self.type.startswith("_")
        return channel_packets.content_fields(type=type, own=own, js=js, end=end)

    def send(self, fields: bytes, body: bytes, *, end: bool, now: float) -> int | None:
        """A packet with content; its seq. Raises as `TelehashEngine.send`."""
        sending = self._sending
        if sending.ended or self._finished:
            whose = "we have" if sending.ended else "the peer has"
            raise ChannelOver(f"{whose} ended channel {self.number}")
        limit = self._context.egress.limit
        size = self.packet_size(fields, body)
        if size > limit:
            raise PacketTooLarge(size, limit)
        if not sending.room:
            self._full = True
            raise WindowFull(f"{sending.unacked} packets of channel {self.number} are not acked")
        if isinstance(sending, SendingHalf):
            sending.check(end=end)
        before = sending.size
        seq = sending.add(fields, body, size, end=end)
        self._context.outgoing += sending.size - before
        self._full = not sending.room
        self._context.egress.want(self)
        return seq

    def done(self, first: int, stop: int, now: float) -> None:
        """The application has processed these (T6, T7)."""
        receiving = self.receiving
        if not self.reliable or not receiving.process(first, stop):
            return
        self._ack_progress(now)
        self.settle(now)

    def _ack_progress(self, now: float) -> None:
        context = self._context
        pending = self._ack_stop() - self.receiving.acked
        if pending * ACK_EARLY >= context.config.window:
            context.egress.want_ack(self)
        elif pending:
            context.soon.add(self.number, now)

    # the peer

    def handle(self, packet: ChannelPacket, now: float) -> None:
        """A packet of this channel, which is open."""
        if packet.err is not None:
            self.close(CloseReason.FAILED, packet.err, by_peer=True)
        elif packet.type is not None and not self._opens(packet):
            self._context.drop(PacketFault.TYPE_AGAIN, self.number)
        elif self.reliable:
            self._handle_reliable(packet, now)
        elif packet.seq is not None:
            self._context.drop(PacketFault.UNEXPECTED_SEQ, self.number)
        elif packet.has_content:
            self._context.with_events[self.number] = self
            self.receiving.take_unreliable(packet)
            if packet.end:
                self.close(CloseReason.PEER_ENDED, by_peer=True)

    def _opens(self, packet: ChannelPacket) -> bool:
        """Whether it is the packet that opened the channel, or that one again."""
        if self.ours or packet.type != self.type:
            return False
        return packet.seq == 0 if self.reliable else self.receiving.next_seq == 0

    def _handle_reliable(self, packet: ChannelPacket, now: float) -> None:
        context = self._context
        if packet.ignored is not None:
            context.drop(packet.ignored, self.number)
        if packet.ack is not None or packet.miss:
            self._on_ack(packet.ack, packet.miss, now)
            if self.closed is not None:
                return
        seq = packet.seq
        if seq is None:
            if packet.has_content:
                context.drop(PacketFault.NO_SEQ, self.number)
            return
        self._heard_at = now
        self._owes_ack = True
        receiving = self.receiving
        before = receiving.next_seq
        fault = receiving.take(packet, seq)
        if fault is not None:
            context.drop(fault, self.number)
        if receiving.next_seq > before:
            context.with_events[self.number] = self
            if not receiving.has_gap:
                context.late.add(self.number, now)
                return
        # what came again has lost its ack, and what is missing is asked for
        context.soon.add(self.number, now)

    def _on_ack(self, ack: int | None, miss: list[int] | None, now: float) -> None:
        sending = self._sending
        assert isinstance(sending, SendingHalf)
        if ack is not None:
            if ack >= sending.sent:
                self._context.drop(PacketFault.ACK_BEYOND_SENT, self.number)
                return
            before = sending.size
            if sending.on_ack(ack, now):
                self._progress(before, now)
        if miss and (ack is None or ack + 1 == sending.acked) and self.closed is None:
            sending.on_miss(miss, now)
            self._wake(now)

    def _progress(self, before: int, now: float) -> None:
        """More is acked: who waits for that goes on."""
        context, sending = self._context, self._sending
        context.outgoing -= before - sending.size
        assert isinstance(sending, SendingHalf)
        self._acked = sending.acked
        context.with_events[self.number] = self
        if self.receiving.ended and not sending.unacked:
            self._ack_progress(now)
        self.settle(now)
        if self.closed is None:
            self._wake(now)

    def _wake(self, now: float) -> None:
        """See to the timer and to what goes now."""
        sending = self._sending
        if sending.ready:
            self._context.egress.want(self)
        if isinstance(sending, SendingHalf) and (due := sending.due) is not None:
            self._context.timers.sooner(self.number, due)

    # acks

    def _ack_stop(self) -> int:
        """Behind the highest seq that may be acked.

        The peer is over the channel when its end is acked, and would miss what is under way to it
        then: that ack waits for ours to be acked. Where both have ended one must not wait, and who
        opened the channel does not.
        """
        receiving, sending = self.receiving, self._sending
        if self._finished and sending.unacked and not (self.ours and sending.ended):
            return receiving.done - 1
        return receiving.done

    def acks(self, now: float, room: int) -> bytes:
        """The fields that acknowledge, in so many bytes (T6, T11); they count as sent."""
        context, receiving = self._context, self.receiving
        stop = self._ack_stop()
        receiving.acked = stop
        self._owes_ack = False
        context.soon.cancel(self.number)
        context.late.cancel(self.number)
        context.egress.acked(self.number)
        if self.type is None:
            self._asked_bare = True
            return channel_packets.ack_fields(None, [0])  # its opening, and nothing else
        miss = receiving.missing()
        if miss:
            miss = miss[: max(0, room - channel_packets.ACK_BYTES - _MISS_BYTES) // _MISS_ENTRY]
            if now < self._heard_at + context.config.channel_timeout:
                context.late.add(self.number, now)
        if stop:
            return self._ack_of(stop, miss)
        self._asked_bare |= bool(miss)
        return channel_packets.ack_fields(None, miss)

    def _ack_of(self, stop: int, miss: list[int]) -> bytes:
        if not miss and self._asked_bare:
            # telehash-js takes no ack behind a miss that had none, unless that has one itself; and
            # what is acked is missed by nobody (T12)
            miss = [stop - 1]
        return channel_packets.ack_fields(stop - 1, miss)

    @property
    def last_ack(self) -> bytes | None:
        """The packet that acks all that was processed; None: nothing was (T6)."""
        done = self.receiving.done
        return channel_packets.encode_ack(self.number, self._ack_of(done, [])) if done else None

    # what goes to the link

    def next_size(self) -> int | None:
        packet = self._sending.peek()
        return None if packet is None else packet.size

    def next_packet(self, now: float, limit: int) -> bytes:
        context, sending = self._context, self._sending
        before = sending.size
        packet = sending.take(now)
        assert packet is not None
        if isinstance(sending, UnreliableQueue):
            context.outgoing -= before - sending.size
            data = channel_packets.encode_content(
                self.number, None, b"", packet.fields, packet.body
            )
            if self._full:
                context.with_events[self.number] = self
            if sending.complete:
                self.close(CloseReason.ENDED)
            return data
        # one that goes for the first time is due no sooner than those before it
        again = packet.resent_at is not None
        if (again or self.number not in context.timers) and (due := sending.due) is not None:
            context.timers.sooner(self.number, due)
        acks = self.acks(now, limit - packet.size + channel_packets.ACK_BYTES)
        return channel_packets.encode_content(
            self.number, packet.seq, acks, packet.fields, packet.body
        )

    def ack_packet(self, now: float, limit: int) -> bytes | None:
        acks = self.acks(now, limit - len(channel_packets.encode_ack(self.number, b"")))
        return channel_packets.encode_ack(self.number, acks) if acks else None

    # time

    def tick(self, now: float) -> None:
        """A deadline, which may have moved on."""
        sending = self._sending
        if self.type is None and now >= self._give_up_at:
            self.close(CloseReason.TIMED_OUT)
            return
        if isinstance(sending, SendingHalf):
            if not sending.tick(now):
                if self._finished:
                    self.close(CloseReason.PEER_ENDED, by_peer=True)
                else:
                    self.fail(CloseReason.TIMED_OUT, "timeout")
                return
            self._wake(now)
        self.settle(now)
        if self.closed is None and self._give_up_at < math.inf:
            self._context.timers.sooner(self.number, self._give_up_at)

    def opened(self, type: str) -> None:
        """The opening packet is here."""
        self.type = type
        self._give_up_at = math.inf

    def give_up_at(self, when: float) -> None:
        """Wait no longer than that for what is missing."""
        self._give_up_at = when
        self._context.timers.sooner(self.number, when)

    def settle(self, now: float) -> None:
        """See whether it is over: an end of ours was acked, or one of the peer processed, and there
        is nothing more to wait for (T17)."""
        if self.closed is not None:
            return
        if self._sending.complete:
            if self.receiving.processed or now >= self._give_up_at:
                self.close(CloseReason.ENDED)
            elif self._give_up_at == math.inf:
                self.give_up_at(now + self._context.config.channel_timeout)
        elif self._finished and not self._sending.unacked:
            self.close(CloseReason.PEER_ENDED, by_peer=True)

    # the end

    def fail(self, reason: CloseReason, err: str) -> None:
        """Both directions are dropped, and the peer learns it (P6)."""
        self.failure = channel_packets.encode_err(self.number, err)
        self._context.egress.urgent(self.failure)
        self.close(reason, err)

    def close(self, reason: CloseReason, err: str | None = None, *, by_peer: bool = False) -> None:
        """It is over; the last event of it, behind all that came before."""
        context = self._context
        unacked = self._sending.unacked
        owes_ack = self._owes_ack or self.receiving.done > self.receiving.acked
        if reason in _ENDS and self.reliable and owes_ack and self.last_ack is not None:
            context.egress.urgent(self.last_ack)
        self.closed = ChannelClosed(self.number, reason, err, by_peer, unacked)
        context.outgoing -= self._sending.size
        self._sending.clear()
        self.receiving.clear()
        context.egress.forget(self.number)
        context.timers.cancel(self.number)
        context.soon.cancel(self.number)
        context.late.cancel(self.number)
        if self.type is not None:
            self.flush()
            context.events.append(self.closed)
        context.with_events.pop(self.number, None)
        context.over.append(self)

    def flush(self) -> None:
        """Add to the events what has come together in this turn."""
        events = self._context.events
        batch = self.receiving.batch(reliable=self.reliable)
        if batch is not None:
            events.append(batch)
        if self._acked is not None:
            events.append(PacketsAcked(self.number, self._acked))
            self._acked = None
        if self._full and self.closed is None and self.room:
            events.append(ChannelWritable(self.number))
