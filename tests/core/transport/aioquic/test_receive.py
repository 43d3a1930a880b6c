"""The short way of receiving accepts exactly what aioquic's own way accepts."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable

import pytest

from aqueduct_core.transport.aioquic.receive import BurstConnection
from aqueduct_core.transport.settings import SMALLEST_DATAGRAM, LinkSettings
from tests.core.transport.wire import Wire

KB = 1024


@pytest.fixture(autouse=True)
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts datagrams by the way they were taken."""
    monkeypatch.setenv("AQUEDUCT_FAST_PATHS", "1")
    counts: Counter[str] = Counter()
    short, long = BurstConnection._receive_run, BurstConnection.receive_datagram

    def run(
        self: BurstConnection, datagrams: list[tuple[bytes, object]], at: int, now: float
    ) -> int:
        reached = short(self, datagrams, at, now)
        counts["short"] += reached - at
        return reached

    def single(self: BurstConnection, data: bytes, address: object, now: float) -> None:
        counts["long"] += 1
        long(self, data, address, now)

    monkeypatch.setattr(BurstConnection, "_receive_run", run)
    monkeypatch.setattr(BurstConnection, "receive_datagram", single)
    return counts


def transfer(
    wire: Wire, size: int = 600 * KB, between: Callable[[int], None] = lambda step: None
) -> None:
    """Send ``size`` random bytes from the client in pieces and check that they arrive."""
    probe, server = wire.client.probe, wire.server.probe
    stream = probe.open()
    data = random.Random(size).randbytes(size)
    pieces = 12
    for step in range(pieces):
        part = data[step * size // pieces : (step + 1) * size // pieces]
        probe.write(stream, part, end=step == pieces - 1)
        between(step)
        wire.rest(0.03)
    wire.run(lambda: stream in server.ended)
    assert server.digests[stream].digest() == hashlib.sha256(data).digest()


def connected(**chances: float) -> Wire:
    """Ends that send datagrams of one size, so that it is known how many there will be."""
    small = LinkSettings(max_datagram_size=SMALLEST_DATAGRAM)
    wire = Wire(settings=small, **chances)  # type: ignore[arg-type]
    wire.connect()
    wire.rest(0.5)
    return wire


def test_nearly_all_datagrams_of_a_transfer_go_the_short_way(ways: Counter[str]) -> None:
    wire = connected()
    ways.clear()
    transfer(wire)
    assert ways["long"] <= 2
    assert ways["short"] > 500


def test_what_comes_twice_counts_once() -> None:
    wire = connected()
    wire.mangle = lambda data: [data, data]
    transfer(wire)
    quic = wire.server.link._quic
    assert quic._local_max_data.used == 600 * KB


def test_damaged_datagrams_are_dropped() -> None:
    wire = connected()
    rng = random.Random(5)

    def damage(data: bytes) -> list[bytes]:
        if rng.random() < 0.1:
            at = rng.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
        elif rng.random() < 0.05:
            data = data[: rng.randrange(1, len(data))]
        return [data]

    wire.mangle = damage
    transfer(wire)
    assert wire.server.link.lost is None


def test_keys_change_in_the_midst(ways: Counter[str]) -> None:
    wire = connected()
    ways.clear()

    def update(step: int) -> None:
        if step in (3, 7):
            wire.client.link._quic.request_key_update()
        if step == 5:
            wire.server.link._quic.request_key_update()
            wire.server.link.probe()

    transfer(wire, between=update)
    assert 0 < ways["long"] < 20
    assert ways["short"] > 400


def test_a_client_that_moves_to_another_address_is_followed(ways: Counter[str]) -> None:
    wire = connected()

    def move(step: int) -> None:
        if step == 4:
            wire.client_address = ("127.0.0.9", 999)

    transfer(wire, between=move)
    assert wire.server.link._quic.get_peer_address() == ("127.0.0.9", 999)


def test_late_packets_go_the_long_way_and_fit_in(ways: Counter[str]) -> None:
    wire = connected(jitter=0.02, loss=0.03)
    ways.clear()
    transfer(wire)
    assert ways["long"] > 10
    assert ways["short"] > 10


@pytest.mark.parametrize("seed", range(3))
def test_many_streams_datagrams_and_small_pieces_in_one_packet(seed: int) -> None:
    wire = connected(loss=0.02, jitter=0.002)
    rng = random.Random(seed)
    probe, server = wire.client.probe, wire.server.probe
    sent: dict[int, bytes] = {probe.open(): b"" for _ in range(40)}
    datagrams = 0
    for _ in range(400):
        stream = rng.choice(list(sent))
        data = rng.randbytes(rng.choice([1, 3, 40, 300, 2_000]))
        probe.write(stream, data)
        sent[stream] += data
        if rng.random() < 0.3:
            probe.datagram(rng.randbytes(rng.choice([0, 5, 60, 1_000])))
            datagrams += 1
        if rng.random() < 0.2:
            wire.rest(0.004)
    for stream in sent:
        probe.write(stream, b"", end=True)
    wire.run(lambda: len(server.ended) == 40)
    for stream, data in sent.items():
        assert (
            server.digests.get(stream, hashlib.sha256()).digest() == hashlib.sha256(data).digest()
        )
    assert datagrams * 0.8 <= len(server.datagrams) <= datagrams


def test_a_peer_that_exceeds_its_credit_is_closed_on_the_short_way_too() -> None:
    wire = Wire(server_consumes=False)
    wire.connect()
    wire.rest(0.5)
    probe = wire.client.probe
    stream = probe.open()
    probe.write(stream, b"x" * 100)
    wire.rest(0.1)
    quic = wire.client.link._quic
    quic._table[stream].max_stream_data_remote = 1 << 40
    quic._remote_max_data = 1 << 40
    probe.write(stream, bytes(6 * 1024 * KB))
    wire.run(lambda: wire.client.probe.lost is not None)
    assert wire.client.probe.lost is not None
    assert "Over stream data limit" in wire.client.probe.lost.reason
    assert wire.server.probe.received <= 4 * 1024 * KB
