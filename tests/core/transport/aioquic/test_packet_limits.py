"""Packets that are all work: what is refused, and that no honest packet is."""

from __future__ import annotations

from typing import Any

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.packet import QuicErrorCode, pull_quic_transport_parameters
from aioquic.tls import Epoch

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.transport.aioquic.packet_limits import (
    IDLE_SHARE,
    MOST_ACK_RANGES,
    MOST_FRAMES,
)
from aqueduct_core.transport.settings import LARGEST_DATAGRAM, LinkSettings
from tests.core.transport.wire import CLIENT, Wire

FULL = 1_150
ACK = b"\x02"
FLOODS = {
    "PING": b"\x01",
    "ACK": ACK + b"\x00\x00\x00\x00",
    "CRYPTO": b"\x06\x00\x00",
    "MAX_DATA": b"\x10\x40\x40",
    "MAX_STREAMS": b"\x13\x40\x40",
    "DATA_BLOCKED": b"\x14\x00",
    "STREAMS_BLOCKED": b"\x17\x00",
    "RETIRE_CONNECTION_ID": b"\x19\x01",
    "PATH_CHALLENGE": b"\x1a12345678",
    "PATH_RESPONSE": b"\x1b12345678",
    "an empty STREAM": b"\x0a\x02\x00",
    "an empty DATAGRAM": b"\x31\x00",
}


def connected() -> Wire:
    wire = Wire()
    wire.connect()
    wire.rest(0.5)
    return wire


def flooding(wire: Wire, name: str) -> bytes:
    """The frame; an acknowledgement is one of the server's last packet."""
    frame, last = FLOODS[name], wire.server.link._quic._packet_number - 1
    return ACK + bytes([last]) + frame[2:] if frame.startswith(ACK) else frame


def send(wire: Wire, payload: bytes) -> None:
    """One packet of the client with these frames."""
    quic: Any = wire.client.link._quic
    number = quic._packet_number
    quic._packet_number += 1
    crypto = quic._cryptos[Epoch.ONE_RTT]
    header = bytes([0x43 | crypto.key_phase << 2]) + quic._peer_cid.cid + number.to_bytes(4)
    sealed = crypto.encrypt_packet(header, payload.ljust(20, b"\0"), number)
    wire.server.link.receive([(sealed, CLIENT)], wire.now)


@pytest.mark.parametrize("name", FLOODS)
def test_a_packet_that_is_all_work_ends_the_connection(name: str) -> None:
    wire = connected()
    frame = flooding(wire, name)
    send(wire, frame * (FULL // len(frame)))
    lost = wire.server.link.lost
    assert lost is not None
    assert (lost.code, lost.origin) == (QuicErrorCode.INTERNAL_ERROR, CloseOrigin.TRANSPORT)
    assert lost.reason == "a packet of too many frames"


@pytest.mark.parametrize("name", FLOODS)
def test_some_of_them_in_each_of_many_packets_are_honest(name: str) -> None:
    wire = connected()
    for _ in range(50):
        send(wire, flooding(wire, name) * (MOST_FRAMES // IDLE_SHARE))
    assert wire.server.link.lost is None


def test_a_packet_full_of_the_smallest_frames_of_streams_is_honest() -> None:
    wire = connected()
    streams = b"".join(b"\x0a" + bytes([0x40, 4 * n + 2, 1]) + b"x" for n in range(60))
    send(wire, streams)
    resets = b"".join(b"\x04" + bytes([0x40, 4 * n + 2, 0, 1]) for n in range(60))
    send(wire, resets)
    assert wire.server.link.lost is None


def test_a_large_packet_may_hold_more() -> None:
    wire = Wire(settings=LinkSettings(max_datagram_size=9_000))
    wire.connect()
    wire.rest(0.5)
    send(wire, b"".join(b"\x0e\x02" + b"%c%c" % (0x40 | n >> 8, n & 255) + b"\x01x" for n in
                        range(1_400)))  # fmt: skip
    assert wire.server.link.lost is None
    send(wire, b"\x01" * 8_000)
    assert wire.server.link.lost is not None


def ack_of(ranges: int) -> bytes:
    return b"\x02\x80\x00\xff\xff\x00" + (0x4000 | ranges).to_bytes(2) + bytes(1 + 2 * ranges)


def test_an_acknowledgement_names_so_many_ranges_and_no_more() -> None:
    wire = connected()
    wire.server.link._quic._packet_number = 1 << 16
    send(wire, ack_of(MOST_ACK_RANGES))
    assert wire.server.link.lost is None
    send(wire, ack_of(MOST_ACK_RANGES + 1))
    lost = wire.server.link.lost
    assert lost is not None
    assert lost.reason == "an acknowledgement of 257 ranges"


def stream_of(size: int) -> bytes:
    """A STREAM frame that makes a packet of so many bytes."""
    head = b"\x0e\x02\x00" + (0x8000_0000 | size - 36).to_bytes(4)
    return head + bytes(size - 36)


def test_a_datagram_that_is_larger_than_any_honest_one_is_as_good_as_lost() -> None:
    wire = connected()
    before = wire.server.link.counts.bytes_received
    send(wire, stream_of(LARGEST_DATAGRAM + 1))
    assert len(wire.server.link._quic._table) == 0
    send(wire, stream_of(LARGEST_DATAGRAM))
    assert len(wire.server.link._quic._table) == 1
    assert wire.server.link.counts.bytes_received - before == 2 * LARGEST_DATAGRAM + 1
    assert wire.server.link.lost is None


def test_both_ends_say_how_large_it_may_be() -> None:
    for quic in (connected().server.link._quic, connected().client.link._quic):
        told = pull_quic_transport_parameters(Buffer(data=quic._serialize_transport_parameters()))
        assert told.max_udp_payload_size == LARGEST_DATAGRAM
