"""The channels of a line by number: how those of the peer begin, and what is left (P3, P4)."""

from __future__ import annotations

from collections.abc import Iterator

from aqueduct_core.telehash.channel import Channel, LineContext
from aqueduct_core.telehash.events import ChannelOpened, CloseReason
from aqueduct_core.telehash.faults import PacketFault
from aqueduct_core.telehash.known_channels import (
    ENDED_BYTES,
    EndedChannels,
    OpenedNumbers,
    QuietChannels,
)
from aqueduct_core.telehash.wire import channel_packets
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket

CHANNEL_BYTES = 3_000
"""Memory of a channel beside its packets, about."""
_REFUSALS = ("too many channels", "full", "no")
"""Each shorter than the one before: an answer is not longer than what it answers."""


class LineChannels:
    """All channels that are open, or were until lately; those whose opening packet is missing, too.

    Args:
        odd: of this side (P3).
    """

    def __init__(self, context: LineContext, *, odd: bool) -> None:
        config = context.config
        self._config = config
        self._context = context
        self._channels: dict[int, Channel] = {}
        self._ended = EndedChannels(config.max_ended, config.channel_timeout)
        self._numbers = OpenedNumbers(odd=not odd)
        self._quiet = QuietChannels(config.channel_timeout)
        self._opened = 0  # by the peer, and open
        self._unopened = 0

    def __iter__(self) -> Iterator[Channel]:
        return iter(list(self._channels.values()))

    @property
    def size(self) -> int:
        """Memory of them beside packets."""
        return CHANNEL_BYTES * len(self._channels) + ENDED_BYTES * len(self._ended)

    def get(self, number: int) -> Channel | None:
        """A channel that is open."""
        channel = self._channels.get(number)
        return channel if channel is not None and channel.type is not None else None

    def add(self, channel: Channel) -> None:
        """One that this side has opened."""
        self._channels[channel.number] = channel

    # packets of the peer

    def of_packet(self, packet: ChannelPacket, now: float) -> Channel | None:
        """The channel that a packet is for, which it may open; None: there is none."""
        channel = self._channels.get(packet.channel)
        if channel is None or channel.type is None:
            channel = self._opening(packet, channel, now)
        if channel is not None and not channel.reliable and not channel.ours:
            self._quiet.heard(channel.number, now)
        return channel

    def _opening(
        self, packet: ChannelPacket, unopened: Channel | None, now: float
    ) -> Channel | None:
        """The channel of a packet, where there was none that is open; None: there is none."""
        number, drop = packet.channel, self._context.drop
        if number in self._ended:
            self._again(packet, now)
        elif not self._numbers.is_peers(number):
            wrong = packet.type is not None
            drop(PacketFault.WRONG_PARITY if wrong else PacketFault.UNKNOWN_CHANNEL, number)
        elif number in self._numbers:
            again = packet.type is not None
            drop(PacketFault.REUSED_CHANNEL if again else PacketFault.UNKNOWN_CHANNEL, number)
        elif packet.err is not None:
            drop(PacketFault.UNKNOWN_CHANNEL, number)
            self._numbers.add(number)  # its opening is late, and of no use any more
            if unopened is not None:
                unopened.close(CloseReason.FAILED)
                self.bury(now)
        elif packet.type is not None:
            return self._open(packet, packet.type, unopened, now)
        elif packet.seq is None:
            drop(PacketFault.UNKNOWN_CHANNEL, number)
        elif packet.seq == 0:
            drop(PacketFault.NO_TYPE, number)
        elif unopened is not None:
            return unopened
        elif self._unopened >= self._config.max_unopened:
            drop(PacketFault.TOO_MANY_UNOPENED, number)
        else:
            self._unopened += 1
            unopened = Channel(number, None, self._context, reliable=True, ours=False)
            unopened.give_up_at(now + self._config.channel_timeout)
            self._channels[number] = unopened
            return unopened
        return None

    def _open(
        self, packet: ChannelPacket, type: str, unopened: Channel | None, now: float
    ) -> Channel | None:
        """A channel of the peer, by its first packet (T1, P4)."""
        number = packet.channel
        if packet.seq or (unopened is not None and packet.seq is None):
            self._context.drop(PacketFault.FIRST_SEQ, number)
            return None
        if self._opened >= self._config.max_channels and not self._make_room(now):
            self._context.drop(PacketFault.TOO_MANY_CHANNELS, number)
            for reason in _REFUSALS:
                answer = channel_packets.encode_err(number, reason)
                if len(answer) <= packet.size:
                    self._context.egress.urgent(answer)
                    break
            return None
        if unopened is None:
            reliable = packet.seq is not None
            channel = Channel(number, None, self._context, reliable=reliable, ours=False)
        else:
            channel = unopened
            self._unopened -= 1
        channel.opened(type)
        self._numbers.add(number)
        self._opened += 1
        self._channels[number] = channel
        self._context.events.append(ChannelOpened(number, type, channel.reliable))
        return channel

    def _make_room(self, now: float) -> bool:
        """Have a channel give way that is silent for long; whether there was one."""
        idlest = self._quiet.idlest(now)
        if idlest is not None:
            self._channels[idlest].close(CloseReason.TIMED_OUT)
            self.bury(now)
        return idlest is not None

    def _again(self, packet: ChannelPacket, now: float) -> None:
        """A packet of a channel that has ended: acked again (T17), and what came late dropped."""
        number = packet.channel
        self._ended.heard(number, now)
        if packet.seq is not None and packet.err is None:
            self._context.soon.add(number, now)

    # time, and the end

    @property
    def next(self) -> float | None:
        """When `tick` is wanted."""
        return self._ended.next

    def tick(self, now: float) -> None:
        """See to the deadlines of channels, and forget some that have ended."""
        context = self._context
        for number in (*context.soon.take(now), *context.late.take(now)):
            channel = self._channels.get(number)
            if channel is not None:
                context.egress.want_ack(channel)
            elif (answer := self._ended.answer(number, now)) is not None:
                context.egress.urgent(answer)
        while (due := context.timers.pop(now)) is not None:
            self._channels[due].tick(now)
        self._ended.expire(now)
        self.bury(now)

    def bury(self, now: float) -> None:
        """See to channels that have closed just now."""
        over, self._context.over = self._context.over, []
        for channel in over:
            number = channel.number
            self._quiet.forget(number)
            if self._channels.pop(number, None) is None:
                continue  # a channel of ours whose first packet did not even go
            if channel.type is None:
                self._unopened -= 1
            elif not channel.ours:
                self._opened -= 1
            if channel.type is not None or number in self._numbers:
                self._ended.add(number, channel.last_ack, channel.failure, now)

    def lost(self) -> None:
        """The line is over, and all of them with it."""
        for channel in self:
            channel.close(CloseReason.LOST)
        self._channels.clear()
        self._ended.clear()
        self._context.over.clear()
