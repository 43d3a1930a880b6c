"""A conversation held twice: by the short ways of sending and receiving, and by the library's own.

Both have the same random numbers for what the network does, the same clock and the same books when
the handshake is over (its signatures have a size of their own each time). What we mean to do
otherwise than the library, the twin does too: it paces in the same bursts, is not woken by pacing
where nothing may be sent, makes its window small before it sends and not behind that, and begins no
packet with stream bytes where no whole datagram fits the window. All else is to be the same, to the
byte.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

from aioquic.quic.packet import QuicPacketType
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.receive import BurstConnection
from aqueduct_core.transport.aioquic.send import RunConnection
from aqueduct_core.transport.aioquic.sent_packets import RunRecovery
from aqueduct_core.transport.aioquic.stream_service import StreamConnection
from tests.core.transport.wire import End, Wire

WINDOW = 60_000
ROUND_TRIP = 0.01


class Packet(NamedTuple):
    """A 1-RTT packet as it left."""

    time: float
    from_client: bool
    number: int
    first_byte: int
    payload: bytes


class Books(NamedTuple):
    """What an end knows of its path after it has sent."""

    window: int
    in_flight: int
    threshold: int | None
    packets: int
    round_trip: float
    variance: float
    received: tuple[range, ...]
    credit_used: int


class Held(NamedTuple):
    packets: list[Packet]
    books: list[Books]
    wire: Wire


def hold(
    talk: Callable[[Wire, random.Random], None],
    *,
    seed: int = 1,
    loss: float = 0.0,
    jitter: float = 0.0,
    twice: float = 0.0,
    window: int = WINDOW,
    **settings: Any,
) -> Held:
    """A conversation over a network that loses, delays and repeats datagrams by these chances."""
    wire = Wire(seed=seed, **settings)
    wire.connect()
    wire.rest(0.5)
    wire.now = 101.0
    for end in wire.ends:
        begin_anew(end, wire.now, window)
    wire._random = random.Random(seed)
    wire.loss, wire.jitter = loss, jitter
    repeats = random.Random(seed + 1)
    wire.mangle = lambda data: [data] * (1 + (repeats.random() < twice))
    packets: list[Packet] = []
    books: list[Books] = []
    carry = Wire._carry

    def carried(self: Wire, sender: End, data: bytes) -> None:
        quic = sender.link._quic
        keys = copy.copy(quic._cryptos[Epoch.ONE_RTT].send)
        header, payload, number, _ = keys.decrypt_packet(data, 9, quic._packet_number)
        packets.append(Packet(self.now, sender is self.client, number, header[0], payload))
        books.append(books_of(sender))
        carry(self, sender, data)

    with patch.object(Wire, "_carry", carried):
        talk(wire, random.Random(seed))
        wire.rest(1.0)
    return Held(packets, books, wire)


def begin_anew(end: End, now: float, window: int) -> None:
    """What the handshake has left to chance."""
    quic = end.link._quic
    recovery = quic._loss
    congestion = type(recovery._cc)(max_datagram_size=quic._max_datagram_size)
    congestion.congestion_window = window
    recovery._cc = congestion
    recovery._rtt_smoothed = recovery._rtt_min = recovery._rtt_latest = ROUND_TRIP
    recovery._rtt_variance = ROUND_TRIP / 4
    recovery._pacer.evaluation_time = now
    recovery._pacer.bucket_time = 0.0
    recovery._pacer.update_rate(window, ROUND_TRIP)
    quic._packet_number = 1_000
    for space in quic._loss.spaces:
        space.sent_packets.clear()
        space.ack_eliciting_in_flight = 0
    space = quic._spaces[Epoch.ONE_RTT]
    space.expected_packet_number = 1_000
    space.largest_acked_packet = 0


def books_of(end: End) -> Books:
    quic = end.link._quic
    recovery, space = quic._loss, quic._spaces[Epoch.ONE_RTT]
    return Books(
        recovery.congestion_window,
        recovery.bytes_in_flight,
        recovery._cc.ssthresh,
        len(space.sent_packets),
        recovery._rtt_smoothed,
        recovery._rtt_variance,
        tuple(space.ack_queue),
        quic._remote_max_data_used,
    )


class WholeDatagrams(QuicPacketBuilder):
    """aioquic's, but that no packet with stream bytes is begun without room for a whole one."""

    applies = False

    def start_packet(self, packet_type: QuicPacketType, crypto: Any) -> None:
        super().start_packet(packet_type, crypto)
        if self.applies and self._flight_capacity < self._buffer_capacity:
            self._flight_capacity = 0


@contextmanager
def by_the_library() -> Iterator[None]:
    """All is built, received and acknowledged by aioquic meanwhile."""

    def built(self: RunConnection, now: float) -> list[tuple[bytes, Any]]:
        assert self._recovery is not None
        recovery = self._recovery
        recovery.begin_anew(now)
        plainly = WholeDatagrams.applies = self._sends_plainly(recovery)
        out = StreamConnection.datagrams_to_send(self, now)
        room = recovery.congestion_window - recovery.bytes_in_flight
        waits = len(self._order) or self._due or self._limits_due
        if plainly and not (waits and room >= self._max_datagram_size):
            self._pacing_at = None
        return out

    with (
        patch.object(RunConnection, "datagrams_to_send", built),
        patch.object(RunRecovery, "_acknowledge", lambda *arguments: None),
        patch.object(BurstConnection, "_usual", False),
        patch("aioquic.quic.connection.QuicPacketBuilder", WholeDatagrams),
    ):
        yield
