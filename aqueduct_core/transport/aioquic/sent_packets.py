"""Packets that were sent, and what is done when a run of them is acknowledged.

aioquic keeps a list of callbacks for each packet and calls each of them. Nearly all packets of a
sender hold stream bytes and nothing else, and are acknowledged in runs: of those an entry keeps
which bytes they were, and a stream is told once of all its bytes that an acknowledgement brings.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, TypeAlias

from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicDeliveryState
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import QuicPacketRecovery, QuicPacketSpace
from aioquic.quic.stream import QuicStreamSender
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.congestion import BoundedCubic, BoundedReno
from aqueduct_core.transport.aioquic.pacing import BurstPacer

SentFrame: TypeAlias = tuple[QuicStreamSender, int, int, bool]
"""Whose bytes, from which offset to before which, and whether the end of the stream was there."""


class StreamPacket:
    """A 1-RTT packet that holds STREAM frames only, with the attributes of a ``QuicSentPacket``."""

    __slots__ = ("frames", "packet_number", "sent_bytes", "sent_time")

    epoch = Epoch.ONE_RTT
    in_flight = True
    is_ack_eliciting = True
    is_crypto_packet = False
    packet_type = QuicPacketType.ONE_RTT

    def __init__(
        self, packet_number: int, sent_time: float, sent_bytes: int, frames: list[SentFrame]
    ) -> None:
        self.packet_number = packet_number
        self.sent_time = sent_time
        self.sent_bytes = sent_bytes
        self.frames = frames

    @property
    def delivery_handlers(self) -> list[tuple[Callable[..., None], Any]]:
        """As aioquic calls them when the packet is lost."""
        return [
            (sender.on_data_delivery, (start, stop, fin))
            for sender, start, stop, fin in self.frames
        ]


class RunRecovery(QuicPacketRecovery):
    """A ``QuicPacketRecovery`` that takes runs of packets: sent, and acknowledged.

    It comes to the same state as aioquic's own that is given the packets one by one.
    """

    _cc: BoundedCubic | BoundedReno

    def __init__(self, *, max_datagram_size: int, **start: Any) -> None:
        super().__init__(max_datagram_size=max_datagram_size, **start)
        self._pacer = self.pacer = BurstPacer(max_datagram_size=max_datagram_size)

    def begin_anew(self, now: float) -> None:
        """Something is about to be sent: after a long silence the congestion window is small."""
        self._cc.begin_anew(now)

    def on_run_sent(self, packets: list[StreamPacket], size: int, space: QuicPacketSpace) -> None:
        """Like ``on_packet_sent`` for each; they have ``size`` bytes in all."""
        sent: dict[int, Any] = space.sent_packets
        for packet in packets:
            sent[packet.packet_number] = packet
        space.ack_eliciting_in_flight += len(packets)
        self._time_of_last_sent_ack_eliciting_packet = packets[-1].sent_time
        self._cc.on_run_sent(size)

    def on_ack_received(
        self, *, ack_rangeset: RangeSet, ack_delay: float, now: float, space: QuicPacketSpace
    ) -> None:
        self._acknowledge(ack_rangeset, now, space)
        super().on_ack_received(
            ack_rangeset=ack_rangeset, ack_delay=ack_delay, now=now, space=space
        )

    def _acknowledge(self, ranges: RangeSet, now: float, space: QuicPacketSpace) -> None:
        """Take out what is acknowledged for the first time, but the last packet that asked for it
        and those behind: aioquic measures the round trip by these, and looks what is lost."""
        sent: dict[int, Any] = space.sent_packets
        numbers = list(sent)
        acked: list[int] = []
        for each in ranges:
            first = bisect_left(numbers, each.start)
            acked += numbers[first : bisect_left(numbers, each.stop, first)]
        last = len(acked) - 1
        while last > 0 and not sent[acked[last]].is_ack_eliciting:
            last -= 1
        if last <= 0:
            return
        in_flight: list[Any] = []
        merged: dict[QuicStreamSender, list[Any]] = {}
        for number in acked[:last]:
            packet = sent.pop(number)
            if in_flight and packet.sent_bytes > self._cc._max_datagram_size:
                # A probe, which changes the size of datagrams, by which the window grows.
                self._cc.on_run_acked(now, in_flight)
                in_flight = []
            if packet.in_flight:
                in_flight.append(packet)
            if type(packet) is not StreamPacket:
                space.ack_eliciting_in_flight -= packet.is_ack_eliciting
                for handler, arguments in packet.delivery_handlers:
                    handler(QuicDeliveryState.ACKED, *arguments)
                continue
            space.ack_eliciting_in_flight -= 1
            for sender, start, stop, fin in packet.frames:
                run = merged.get(sender)
                if run is None:
                    merged[sender] = [start, stop, fin]
                elif run[1] == start:
                    run[1] = stop
                    run[2] = run[2] or fin
                else:
                    sender.on_data_delivery(QuicDeliveryState.ACKED, *run)
                    merged[sender] = [start, stop, fin]
        for sender, run in merged.items():
            sender.on_data_delivery(QuicDeliveryState.ACKED, *run)
        if in_flight:
            self._cc.on_run_acked(now, in_flight)
