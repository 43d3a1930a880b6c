"""Acknowledgements of packets that were never sent end the connection, in each packet number space,
whether packets go the short ways or the library's own."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from aioquic.buffer import encode_uint_var as encode
from aioquic.quic.packet import QuicErrorCode
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.tls import Epoch

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.transport.aioquic.connection import CreditedConnection
from aqueduct_core.transport.aioquic.receive import BurstConnection
from tests.core.transport.wire import CLIENT, SERVER, End, Wire

FAR = 1_000


@pytest.fixture(autouse=True, params=["1", "0"], ids=["short", "library"])
def fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether packets go the short ways."""
    monkeypatch.setenv("AQUEDUCT_FAST_PATHS", request.param)
    return bool(request.param == "1")


def ack(largest: int, *ranges: tuple[int, int], first: int = 0) -> bytes:
    """An ACK frame: what is acknowledged below ``largest``, then gaps and lengths."""
    head = b"\x02" + encode(largest) + encode(0) + encode(len(ranges)) + encode(first)
    return head + b"".join(encode(gap) + encode(length) for gap, length in ranges)


def connected() -> Wire:
    wire = Wire()
    wire.connect()
    wire.rest(0.5)
    return wire


def send(wire: Wire, sender: End, payload: bytes) -> None:
    """One packet of the application's space with these frames, to the other end."""
    quic: Any = sender.link._quic
    number = quic._packet_number
    quic._packet_number += 1
    crypto = quic._cryptos[Epoch.ONE_RTT]
    header = bytes([0x43 | crypto.key_phase << 2]) + quic._peer_cid.cid + number.to_bytes(4)
    sealed = crypto.encrypt_packet(header, payload.ljust(20, b"\0"), number)
    other, source = (wire.server, CLIENT) if sender is wire.client else (wire.client, SERVER)
    other.link.receive([(sealed, source)], wire.now)


def refused(lost: LinkLost | None, *, by_peer: bool) -> bool:
    return (
        lost is not None
        and (lost.code, lost.origin) == (QuicErrorCode.PROTOCOL_VIOLATION, CloseOrigin.TRANSPORT)
        and lost.by_peer is by_peer
        and "not sent" in lost.reason
    )


def lying(
    monkeypatch: pytest.MonkeyPatch, client: bool, epoch: Epoch, lie: Callable[[Any], int]
) -> list[int]:
    """One end acknowledges a number more whenever it sends in that space."""
    told: list[int] = []
    write, flight = CreditedConnection._write_ack_frame, CreditedConnection._write_handshake

    def more(
        self: CreditedConnection, builder: QuicPacketBuilder, space: QuicPacketSpace, now: float
    ) -> None:
        if self._is_client is client and space is self._spaces[epoch]:
            told.append(lie(space))
            space.ack_queue.add(told[-1], told[-1] + 1)
        write(self, builder, space, now)

    def always(self: CreditedConnection, builder: QuicPacketBuilder, of: Epoch, now: float) -> None:
        if self._is_client is client and of is epoch and self._cryptos[of].send.is_valid():
            space = self._spaces[of]
            space.ack_at = space.largest_received_time = now
        flight(self, builder, of, now)

    monkeypatch.setattr(CreditedConnection, "_write_handshake", always)
    monkeypatch.setattr(CreditedConnection, "_write_ack_frame", more)
    return told


@pytest.mark.parametrize("client", [True, False], ids=["client", "server"])
@pytest.mark.parametrize("epoch", [Epoch.INITIAL, Epoch.HANDSHAKE], ids=["initial", "handshake"])
@pytest.mark.parametrize("ahead", [1, 2, FAR])
def test_in_the_handshake(
    monkeypatch: pytest.MonkeyPatch, epoch: Epoch, client: bool, ahead: int
) -> None:
    """The next number is that of a packet of another space, and was sent there."""
    wire = Wire()
    told = lying(
        monkeypatch, client, epoch, lambda space: int(space.largest_received_packet) + ahead
    )
    wire.run(lambda: len(wire.ends) == 2 and all(end.link.closed for end in wire.ends))
    assert told
    honest, liar = (wire.server, wire.client) if client else (wire.client, wire.server)
    assert refused(honest.link.lost, by_peer=False)
    assert liar.link.lost is not None


@pytest.mark.parametrize("client", [True, False], ids=["client", "server"])
@pytest.mark.parametrize("ahead", [1, FAR, 1 << 60])
def test_of_a_connection(client: bool, ahead: int) -> None:
    wire = connected()
    liar, honest = (wire.client, wire.server) if client else (wire.server, wire.client)
    last = honest.link._quic._packet_number - 1
    send(wire, liar, ack(last) + ack(last + ahead))
    assert refused(honest.link.lost, by_peer=False)
    wire.run(lambda: liar.link.lost is not None)
    assert refused(liar.link.lost, by_peer=True)


@pytest.mark.parametrize("client", [True, False], ids=["client", "server"])
def test_of_what_was_sent_in_the_handshake(client: bool) -> None:
    """In a further range of the frame, too."""
    wire = connected()
    liar, honest = (wire.client, wire.server) if client else (wire.server, wire.client)
    honest.probe.write(honest.probe.open(), bytes(9_000))
    wire.rest(0.5)
    first, _ = honest.link._quic._sent_in[Epoch.ONE_RTT]
    last = honest.link._quic._packet_number - 1
    assert 1 < first < last
    send(wire, liar, ack(last, first=last - first))
    assert honest.link.lost is None
    send(wire, liar, ack(last, (last - first - 1, 0)))
    assert refused(honest.link.lost, by_peer=False)


def test_behind_bytes_that_went_the_short_way() -> None:
    """The frames before it were taken; nothing behind it is."""
    wire = connected()
    quic = wire.server.link._quic
    stream = b"\x0a" + encode(2) + encode(20) + bytes(20)
    send(wire, wire.client, stream + ack(quic._packet_number) + b"\x0a" + encode(6) + b"\1x")
    assert refused(wire.server.link.lost, by_peer=False)
    assert 2 in quic._table
    assert 6 not in quic._table


def test_an_acknowledgement_moves_nothing_before_it_is_refused() -> None:
    wire = connected()
    quic: Any = wire.server.link._quic
    stream = wire.server.probe.open()
    wire.server.probe.write(stream, bytes(9_000))
    wire.pump()
    before = (quic._loss.bytes_in_flight, quic._loss.congestion_window)
    assert before[0]
    last = quic._packet_number - 1
    send(wire, wire.client, ack(last + FAR, first=last + FAR - quic._sent_in[Epoch.ONE_RTT][0]))
    assert (quic._loss.bytes_in_flight, quic._loss.congestion_window) == before
    assert refused(wire.server.link.lost, by_peer=False)


@pytest.mark.parametrize("seed", range(4))
def test_honest_ends_refuse_nothing(seed: int, fast: bool) -> None:
    """However much is lost, late or repeated, from the first packet on."""
    wire = Wire(seed=seed, loss=0.15, jitter=0.02, server_echoes=True)
    repeats = random.Random(seed)
    wire.mangle = lambda data: [data] * (1 + (repeats.random() < 0.1))
    wire.connect()
    data = random.Random(seed).randbytes(200_000)
    streams = [wire.client.probe.open() for _ in range(3)]
    for stream in streams:
        wire.client.probe.write(stream, data, end=True)
    wire.run(lambda: len(wire.client.probe.ended) == 3)
    for end in wire.ends:
        assert end.link.lost is None
    for stream in streams:
        assert wire.server.probe.digests[stream].digest() == hashlib.sha256(data).digest()


def test_what_is_noted_does_not_grow_with_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is noted for a packet once the handshake is confirmed."""
    wire = connected()
    noted: list[int] = []
    monkeypatch.setattr(
        BurstConnection, "_note_numbers", lambda self, first, stop: noted.append(stop)
    )
    wire.client.probe.write(wire.client.probe.open(), bytes(300_000), end=True)
    wire.run(lambda: len(wire.server.probe.ended) == 1)
    wire.rest(1.0)
    assert wire.client.link._quic._packet_number > 100
    assert noted == []
    assert all(len(end.link._quic._sent_in) == 3 for end in wire.ends)
