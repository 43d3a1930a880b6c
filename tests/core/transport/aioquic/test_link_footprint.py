"""What a link says that it takes is what it takes, about."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import pytest
from aioquic.quic.connection import QuicConnectionError
from aioquic.quic.packet import QuicErrorCode, QuicStreamFrame

from aqueduct_core.engine.actions import ResetStream, SendDatagram, WriteStream
from aqueduct_core.transport.aioquic.connection import CONNECTION_BYTES, STREAM_BYTES
from aqueduct_core.transport.aioquic.streams import MAX_CRYPTO, CryptoReceiver
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.wire import Wire

FACTOR = 2.0
"""Between what is said and what is measured; a footprint is to be honest, not exact."""


def traced(make: Callable[[], object]) -> int:
    """Bytes that are allocated by it and still there."""
    gc.collect()
    tracemalloc.start()
    try:
        kept = make()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept is not None
    return taken


def is_about(said: float, measured: float) -> bool:
    return measured / FACTOR <= said <= measured * FACTOR


def connected(**settings: int) -> Wire:
    wire = Wire(settings=LinkSettings(**settings))  # type: ignore[arg-type]
    wire.connect()
    return wire


def both(wire: Wire) -> int:
    return wire.client.link.footprint + wire.server.link.footprint


def test_an_idle_connection() -> None:
    connected()  # what is made once
    wires: list[Wire] = []
    measured = traced(lambda: wires.extend(connected() for _ in range(5)) or wires)
    assert is_about(sum(map(both, wires)), measured)
    assert wires[0].server.link.footprint >= CONNECTION_BYTES


def test_a_half_open_connection() -> None:
    def begun() -> Wire:
        wire = Wire()
        wire.run(lambda: wire._started)
        wire.mangle = lambda data: []  # nothing more arrives
        wire.run(lambda: wire.server.link.counts.datagrams_received > 0)
        return wire

    wires: list[Wire] = []
    measured = traced(lambda: wires.extend(begun() for _ in range(5)) or wires)
    assert is_about(sum(map(both, wires)), measured)


def write(wire: Wire, count: int, data: bytes) -> None:
    probe = wire.client.probe
    for _ in range(count):
        probe.write(probe.open(), data, end=False)
    wire.client.link.apply(probe.actions(), wire.now)


@pytest.mark.parametrize(("count", "size"), [(120, 1), (120, 900)])
def test_streams_that_wait_to_be_sent(count: int, size: int) -> None:
    wire = connected()
    before = wire.client.link.footprint
    actions = [WriteStream(2 + 4 * number, bytes(size), False) for number in range(count)]

    def hand_over() -> Wire:
        wire.client.link.apply(actions, wire.now)
        return wire

    measured = traced(hand_over)
    assert is_about(wire.client.link.footprint - before, measured)
    assert wire.client.link.outgoing >= count * (STREAM_BYTES + size)


def test_datagrams_that_wait_to_be_sent() -> None:
    wire = connected()
    before = wire.client.link.footprint

    def hand_over() -> Wire:
        actions = [SendDatagram(bytes(500), number) for number in range(300)]
        wire.client.link.apply(actions, wire.now)
        return wire

    measured = traced(hand_over)
    assert is_about(wire.client.link.footprint - before, measured)


def test_what_waits_behind_holes() -> None:
    wire = connected()
    write(wire, 1, bytes(10))
    wire.run(lambda: bool(wire.server.probe.streams))
    link = wire.server.link
    before = link.footprint
    receiver = link._quic._table[2].receiver

    def scatter() -> Wire:
        for offset in range(1_000, 200_000, 1_000):
            receiver.handle_frame(QuicStreamFrame(data=bytes(500), offset=offset))
        return wire

    measured = traced(scatter)
    assert is_about(link.footprint - before, measured)
    receiver.handle_reset(final_size=199_500)
    assert link.footprint == before


def test_all_comes_back() -> None:
    """What came and went leaves the footprint that was before."""
    wire = connected()
    write(wire, 1, b"x")
    wire.run(lambda: wire.client.link.unsent == 0)
    before = wire.client.link.footprint, wire.server.link.footprint
    probe = wire.client.probe
    for _ in range(50):
        probe.write(probe.open(), bytes(5_000), end=True)
    wire.client.link.apply(probe.actions(), wire.now)
    assert wire.client.link.footprint > before[0] + 50 * 5_000
    wire.run(lambda: len(wire.server.probe.ended) == 50 and wire.client.link.unsent == 0)
    wire.run(lambda: len(wire.client.link._quic._table) == 1)
    wire.run(lambda: len(wire.server.link._quic._table) == 1)
    assert wire.client.link._quic.untaken == 0
    after = wire.client.link.footprint, wire.server.link.footprint
    for was, now in zip(before, after, strict=True):
        assert abs(now - was) < 30_000  # packets whose fate is open
    wire.client.link.abandon("over")
    wire.client.link.free()
    assert (wire.client.link.footprint, wire.client.link.outgoing) == (0, 0)


def test_who_is_held_back_gets_no_credit_and_its_datagrams_are_dropped() -> None:
    wire = connected(stream_window=50_000, connection_window=50_000)
    wire.server.link.hold_back(True)
    probe, there = wire.client.probe, wire.server.probe
    probe.write(probe.open(), bytes(200_000), end=True)
    wire.client.link.apply([*probe.actions(), SendDatagram(b"lost", 0)], wire.now)
    wire.run(lambda: sum(there.streams.values()) == 50_000)
    wire.run(lambda: wire.now > 105)
    assert sum(there.streams.values()) == 50_000
    assert there.datagrams == []
    assert wire.server.link.counts.datagrams_held_back == 1
    wire.server.link.hold_back(False)
    wire.run(lambda: bool(there.ended))
    assert sum(there.streams.values()) == 200_000


def test_what_the_peer_has_not_taken_counts_until_it_has() -> None:
    wire = connected()
    quic = wire.client.link._quic
    probe = wire.client.probe
    first, second, third = (probe.open() for _ in range(3))
    for stream_id in (first, second, third):
        probe.write(stream_id, b"x", end=False)
    wire.client.link.apply(probe.actions(), wire.now)
    assert quic.untaken == 3
    wire.client.link.apply([ResetStream(first, 0), ResetStream(second, 0)], wire.now)
    assert quic.untaken == 3
    assert wire.client.link.outgoing == 3 * STREAM_BYTES + 1
    wire.run(lambda: quic.untaken == 0)
    assert wire.client.link.outgoing == 0
    wire.client.link.apply([ResetStream(third, 0)], wire.now)
    assert quic.untaken == 1
    wire.run(lambda: quic.untaken == 0)


def test_a_handshake_has_few_bytes() -> None:
    """TLS joins what is no whole message anew with each piece: 16 MB would be allowed by it."""
    receiver = CryptoReceiver()
    for offset in range(0, MAX_CRYPTO, 1_024):
        receiver.handle_frame(QuicStreamFrame(data=bytes(1_024), offset=offset))
    assert receiver.held == MAX_CRYPTO
    for offset in (MAX_CRYPTO, MAX_CRYPTO - 1):
        with pytest.raises(QuicConnectionError) as caught:
            receiver.handle_frame(QuicStreamFrame(data=bytes(2), offset=offset))
        assert caught.value.error_code == QuicErrorCode.CRYPTO_BUFFER_EXCEEDED
