"""What is sent the short way is what the library would send."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from aqueduct_core.transport.aioquic.send import RunConnection
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.aioquic.twins import Held, by_the_library, hold
from tests.core.transport.wire import Wire

KB = 1024


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AQUEDUCT_FAST_PATHS", "1")


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts datagrams by the way in which they were built."""
    counts: Counter[str] = Counter()
    run, whole = RunConnection._send_run, RunConnection.datagrams_to_send

    def short(self: RunConnection, recovery: Any, out: list[Any], now: float) -> bool:
        before = len(out)
        more = run(self, recovery, out, now)
        counts["short"] += len(out) - before
        return more

    def every(self: RunConnection, now: float) -> list[tuple[bytes, Any]]:
        out = whole(self, now)
        counts["all"] += len(out)
        return out

    monkeypatch.setattr(RunConnection, "_send_run", short)
    monkeypatch.setattr(RunConnection, "datagrams_to_send", every)
    return counts


def one_stream(wire: Wire, rng: random.Random) -> None:
    probe, server = wire.client.probe, wire.server.probe
    stream = probe.open()
    for _ in range(12):
        probe.write(stream, rng.randbytes(50 * KB))
        wire.rest(0.01)
    probe.write(stream, b"end", end=True)
    wire.run(lambda: stream in server.ended)


def small_messages(wire: Wire, rng: random.Random) -> None:
    """On many streams, of many sizes; both ends send."""
    both = (wire.client.probe, wire.server.probe)
    streams = [[probe.open() for _ in range(40)] for probe in both]
    for _ in range(60):
        for probe, own in zip(both, streams, strict=True):
            for _ in range(rng.randrange(20)):
                size = rng.choice([0, 1, 60, 63, 64, 300, 1_150, 1_170, 5_000])
                probe.write(rng.choice(own), rng.randbytes(size))
        wire.rest(rng.choice([0.0005, 0.004]))
    for probe, own in zip(both, streams, strict=True):
        for stream in own:
            probe.write(stream, b"", end=True)
    wire.run(lambda: all(len(probe.ended) == 40 for probe in both))


def echoes(wire: Wire, rng: random.Random) -> None:
    """A few long streams, each answered on another one."""
    probe = wire.client.probe
    streams = [probe.open() for _ in range(3)]
    for _ in range(10):
        for stream in streams:
            probe.write(stream, rng.randbytes(30 * KB))
        wire.rest(0.02)
    for stream in streams:
        probe.write(stream, b"", end=True)
    wire.run(lambda: len(probe.ended) == 3)


def given_up(wire: Wire, rng: random.Random) -> None:
    """Streams that are reset by their senders or stopped by their receivers, among others."""
    ends = (wire.client.probe, wire.server.probe)
    for _ in range(20):
        for probe, other in (ends, ends[::-1]):
            streams = [probe.open() for _ in range(8)]
            for stream in streams:
                probe.write(stream, rng.randbytes(rng.choice([10, 900, 4_000, 40_000])))
            wire.rest(rng.choice([0.0005, 0.01, 0.05]))
            probe.reset(streams[1], 7)
            for stream in other.streams.keys() & {streams[2]}:
                other.stop(stream, 8)
            for at in (0, 2, 3, 4, 5, 6, 7):
                probe.write(streams[at], rng.randbytes(rng.choice([1, 3_000])), end=True)
    wire.run(lambda: not any(end.link._quic._table for end in wire.ends))
    for probe in ends:
        assert probe.ended
        assert probe.resets
        assert probe.stops


SMALL = LinkSettings(max_datagram_size=1_200)
TALKS: dict[str, tuple[Callable[[Wire, random.Random], None], dict[str, Any]]] = {
    "one stream": (one_stream, {"settings": SMALL}),
    "small messages": (small_messages, {"settings": SMALL}),
    "echoes": (echoes, {"settings": SMALL, "server_echoes": True}),
    "narrow windows": (
        echoes,
        {
            "server_echoes": True,
            "settings": replace(SMALL, stream_window=40 * KB, connection_window=64 * KB),
        },
    ),
    "reno": (one_stream, {"settings": replace(SMALL, congestion="reno")}),
    "larger datagrams": (
        echoes,
        {
            "server_echoes": True,
            "settings": LinkSettings(initial_datagram_size=1_452, max_datagram_size=1_452),
        },
    ),
    "growing datagrams": (
        echoes,
        {"server_echoes": True, "settings": LinkSettings(max_datagram_size=3_000)},
    ),
    "given up": (given_up, {"settings": SMALL}),
}
NETWORKS: dict[str, dict[str, float]] = {
    "good": {},
    "loss": {"loss": 0.03},
    "reordering": {"jitter": 0.004},
    "all of it": {"loss": 0.02, "jitter": 0.003, "twice": 0.05},
}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("talk", TALKS)
def test_the_library_sends_the_same_packets(
    talk: str, network: str, seed: int, ways: Counter[str]
) -> None:
    conversation, settings = TALKS[talk]
    chances = {**NETWORKS[network], **settings}
    ours = hold(conversation, seed=seed, **chances)
    assert ways["short"] > 0.4 * ways["all"]
    ways.clear()
    with by_the_library():
        theirs = hold(conversation, seed=seed, **chances)
    assert ways["short"] == 0
    compare(ours, theirs)


def compare(ours: Held, theirs: Held) -> None:
    for at, (mine, other) in enumerate(zip(ours.packets, theirs.packets, strict=False)):
        assert mine[1:] == other[1:], f"packet {at}"
        assert mine.time == pytest.approx(other.time, abs=1e-9)
    assert len(ours.packets) == len(theirs.packets)
