"""Runs of packets leave the books as the library's own are that has the packets one by one."""

from __future__ import annotations

import math
from typing import Any

from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicDeliveryState, QuicSentPacket
from aioquic.quic.rangeset import RangeSet
from aioquic.quic.recovery import QuicPacketRecovery, QuicPacketSpace
from aioquic.quic.stream import QuicStreamSender
from aioquic.tls import Epoch
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.transport.aioquic.congestion import ALGORITHMS
from aqueduct_core.transport.aioquic.pacing import BurstPacer
from aqueduct_core.transport.aioquic.sent_packets import RunRecovery, SentFrame, StreamPacket

SIZE = 1_200
PIECE = 100
"""Bytes of a stream in each packet."""


class End:
    """Recovery of one kind, with streams whose bytes are in its packets."""

    def __init__(self, kind: type[QuicPacketRecovery]) -> None:
        self.recovery = kind(
            congestion_control_algorithm=ALGORITHMS["cubic"],
            initial_rtt=0.1,
            max_datagram_size=SIZE,
            peer_completed_address_validation=True,
            send_probe=lambda: None,
        )
        if kind is QuicPacketRecovery:
            self.recovery._pacer = BurstPacer(max_datagram_size=SIZE)
        self.recovery.handshake_confirmed = True
        self.space = QuicPacketSpace(is_application_data=True)
        self.recovery.spaces = [self.space]
        self.senders = [QuicStreamSender(number, writable=True) for number in range(3)]
        self.answers: list[object] = []

    def frame(self, stream: int) -> SentFrame:
        sender = self.senders[stream]
        sender.write(bytes(PIECE))
        frame = sender.get_frame(PIECE, None)
        assert frame is not None
        return sender, frame.offset, frame.offset + PIECE, False

    def answer(self, delivery: QuicDeliveryState, number: int) -> None:
        self.answers.append((delivery, number))

    def send(self, number: int, now: float, packets: list[list[int]], *, singly: bool) -> None:
        """Packets with a frame of each of these streams; without any, it only acknowledges."""
        entries = [
            StreamPacket(number + at, now, SIZE, [self.frame(stream) for stream in streams])
            for at, streams in enumerate(packets)
        ]
        if all(entry.frames for entry in entries) and not singly:
            assert isinstance(self.recovery, RunRecovery)
            self.recovery.on_run_sent(entries, SIZE * len(entries), self.space)
            return
        for entry in entries:
            handlers: list[Any] = [*entry.delivery_handlers, (self.answer, (entry.packet_number,))]
            packet = QuicSentPacket(
                epoch=Epoch.ONE_RTT,
                in_flight=bool(entry.frames),
                is_ack_eliciting=bool(entry.frames),
                is_crypto_packet=False,
                packet_number=entry.packet_number,
                packet_type=QuicPacketType.ONE_RTT,
                sent_time=now,
                sent_bytes=SIZE,
                delivery_handlers=handlers if not entry.frames else handlers[:-1],
            )
            self.recovery.on_packet_sent(packet=packet, space=self.space)

    def books(self) -> tuple[object, ...]:
        recovery, space = self.recovery, self.space
        congestion = vars(recovery._cc) | {"_rtt_monitor": None}
        measured = {
            name: value
            for name, value in vars(recovery).items()
            if name.startswith(("_rtt", "_pto", "_time"))
        }
        return (
            congestion,
            measured,
            vars(recovery._pacer),
            list(space.sent_packets),
            space.ack_eliciting_in_flight,
            space.largest_acked_packet,
            space.loss_time,
            [
                (list(sender._pending), list(sender._acked), sender._buffer_start)
                for sender in self.senders
            ],
            self.answers,
        )


PACKET = st.lists(st.integers(0, 2), unique=True, max_size=3)
STEPS = st.lists(
    st.tuples(
        st.lists(PACKET, min_size=1, max_size=12),
        st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), max_size=4),
        st.floats(0.000_1, 0.2),
    ),
    max_size=25,
)


@given(STEPS)
def test_each_acknowledgement_does_the_same(
    steps: list[tuple[list[list[int]], list[tuple[int, int]], float]],
) -> None:
    """Of runs, of single packets and of some that only acknowledge; with holes, which are lost in
    time, and again of what was acknowledged before."""
    ours, theirs = End(RunRecovery), End(QuicPacketRecovery)
    now, number = 10.0, 0
    for packets, ranges, took in steps:
        ours.send(number, now, packets, singly=False)
        theirs.send(number, now, packets, singly=True)
        number += len(packets)
        now += took
        acked = RangeSet()
        for back, length in ranges:
            stop = number - back
            if stop > 0:
                acked.add(max(0, stop - length), stop)
        for end in (ours, theirs):
            if len(acked):
                end.recovery.on_ack_received(
                    ack_rangeset=acked, ack_delay=0.001, now=now, space=end.space
                )
        assert ours.books() == theirs.books()


def test_a_stream_learns_once_of_a_run() -> None:
    end = End(RunRecovery)
    for at in range(10):
        end.send(4 * at, 1.0, [[0, 1], [1], [0], [2]], singly=False)
    calls: list[tuple[int, int]] = []
    for number, sender in enumerate(end.senders):
        told = sender.on_data_delivery

        def delivered(
            state: QuicDeliveryState,
            start: int,
            stop: int,
            fin: bool,
            *,
            number: int = number,
            told: Any = told,
        ) -> None:
            calls.append((number, stop - start))
            told(state, start, stop, fin)

        sender.on_data_delivery = delivered  # type: ignore[method-assign]
    end.recovery.on_ack_received(
        ack_rangeset=RangeSet([range(40)]), ack_delay=0.0, now=1.1, space=end.space
    )
    # The last packet is left to the library, which measures the round trip by it.
    assert sorted(calls) == [(0, 2_000), (1, 2_000), (2, 100), (2, 900)]
    assert end.recovery.bytes_in_flight == 0
    assert end.space.sent_packets == {}
    assert math.isclose(end.recovery._rtt_smoothed, 0.1)
