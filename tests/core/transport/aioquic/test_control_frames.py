"""Frames ahead of those of streams are gathered as the library's packet builder would take them."""

from __future__ import annotations

import pytest
from aioquic.quic.packet import QuicFrameType
from aioquic.quic.packet_builder import QuicDeliveryState, QuicPacketBuilderStop

from aqueduct_core.transport.aioquic.control_frames import ControlFrames
from aqueduct_core.transport.aioquic.sent_packets import StreamPacket
from aqueduct_core.transport.aioquic.streams import NO_SENDER


def entry(*, of_streams: bool) -> StreamPacket:
    return StreamPacket(7, 1.5, 99, [(NO_SENDER, 0, 5, False)] if of_streams else [])


def test_an_acknowledgement_alone_is_not_in_flight() -> None:
    frames = ControlFrames(100, 0, 7)
    frames.start_frame(QuicFrameType.ACK, capacity=33).push_bytes(b"1234")
    packet = frames.packet(entry(of_streams=False))
    assert frames.data == b"\x021234"
    assert not packet.in_flight
    assert not packet.is_ack_eliciting
    assert (packet.packet_number, packet.sent_time, packet.sent_bytes) == (7, 1.5, 99)
    with_streams = frames.packet(entry(of_streams=True))
    assert with_streams.in_flight
    assert with_streams.is_ack_eliciting
    assert len(with_streams.delivery_handlers) == 1


def test_a_limit_is_and_its_fate_is_handed_on() -> None:
    fates = []
    frames = ControlFrames(100, 100, 7)
    frames.start_frame(QuicFrameType.MAX_DATA, 9, lambda *fate: fates.append(fate), (5,))
    packet = frames.packet(entry(of_streams=False))
    assert packet.in_flight
    assert packet.is_ack_eliciting
    for handler, arguments in packet.delivery_handlers:
        handler(QuicDeliveryState.LOST, *arguments)
    assert fates == [(QuicDeliveryState.LOST, 5)]


@pytest.mark.parametrize(("capacity", "flight"), [(8, 100), (100, 8)])
def test_where_there_is_no_room_nothing_is_written(capacity: int, flight: int) -> None:
    frames = ControlFrames(capacity, flight, 7)
    with pytest.raises(QuicPacketBuilderStop):
        frames.start_frame(QuicFrameType.MAX_DATA, capacity=9)
    assert frames.data == b""
    frames.start_frame(QuicFrameType.ACK, capacity=8)
    assert frames.remaining_buffer_space == capacity - 1
