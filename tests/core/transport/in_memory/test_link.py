"""The link in memory: streams are reliable, datagrams are not, the same seed is the same run."""

from __future__ import annotations

import hashlib
import random

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.core.transport.probe import Probe


def pair(**chances: float) -> tuple[MemoryLink, Probe, Probe]:
    client, server = Probe(client=True), Probe(client=False)
    return MemoryLink(client, server, **chances), client, server  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_streams_arrive_whole_whatever_happens_to_datagrams(seed: int) -> None:
    link, client, server = pair(seed=seed, jitter=0.05, loss=0.3, duplicate=0.2, cut=0.8)
    server.echoes = True
    rng = random.Random(seed)
    sent = {}
    for number in range(20):
        stream = client.open()
        sent[stream] = data = rng.randbytes(rng.randrange(5_000))
        client.write(stream, data[:100])
        client.write(stream, data[100:], end=True)
        client.datagram(bytes([number]))
        link.run_for(0.01)
    link.run_until(lambda: len(client.ended) == 20)
    for stream, data in sent.items():
        assert server.digests[stream].digest() == hashlib.sha256(data).digest()
    counts = link.client.counts
    assert counts.datagrams == 20
    assert counts.datagrams_lost > 0
    assert len(server.datagrams) == 20 - counts.datagrams_lost + counts.datagrams_doubled


def test_the_same_seed_is_the_same_run() -> None:
    def run(seed: int) -> list[object]:
        link, client, _ = pair(seed=seed, jitter=0.05, loss=0.2, cut=0.5)
        for _ in range(10):
            client.write(client.open(), bytes(300), end=True)
            client.datagram(b"x")
            link.run_for(0.003)
        link.run_for(1.0)
        return [link.server.events, link.server.counts]

    assert run(7) == run(7)
    assert run(7) != run(8)


def test_unconsumed_bytes_stop_at_the_window() -> None:
    link, client, server = pair(stream_window=1_000, connection_window=2_500)
    server.consumes = False
    for _ in range(4):
        client.write(client.open(), bytes(3_000), end=True)
    link.run_for(1.0)
    assert sorted(server.streams.values()) == [500, 1_000, 1_000]
    assert link.client.unsent == 12_000 - 2_500
    server.consumes = True
    server.consume_owed()
    link.run_until(lambda: len(server.ended) == 4)
    assert link.client.unsent == 0


def test_a_reset_overtakes_and_returns_credit() -> None:
    link, client, server = pair(stream_window=1_000, connection_window=1_000)
    for _ in range(5):
        stream = client.open()
        client.write(stream, bytes(5_000))
        link.kick()
        client.reset(stream, 4)
        link.run_for(0.1)
    assert set(server.resets.values()) == {4}
    last = client.open()
    client.write(last, bytes(4_000), end=True)
    link.run_until(lambda: last in server.ended)


def test_a_stop_is_answered_with_a_reset() -> None:
    link, client, server = pair()
    stream = client.open()
    client.write(stream, b"one")
    link.run_until(lambda: server.received == 3)
    server.stop(stream, 9)
    link.run_until(lambda: stream in server.resets)
    assert client.stops == {stream: 9}
    client.write(stream, b"two")
    link.run_for(1.0)
    assert server.received == 3


def test_datagrams_that_are_too_large_are_refused() -> None:
    link, client, server = pair(max_datagram_size=10)
    client.datagram(bytes(11), token=3)
    client.datagram(bytes(10))
    link.run_for(1.0)
    assert client.refused == [3]
    assert server.datagrams == [bytes(10)]


def test_a_close_reaches_the_peer_and_ends_everything() -> None:
    link, client, server = pair()
    client.write(client.open(), b"first")
    link.run_for(1.0)
    client.close(5, "bye")
    client.write(client.open(), b"too late")
    link.run_for(1.0)
    assert client.lost == LinkLost(5, "bye", by_peer=False)
    assert server.lost == LinkLost(5, "bye", by_peer=True)
    assert server.received == 5
    assert not link.step()


def test_a_lost_network_is_told_to_both() -> None:
    link, client, server = pair()
    client.write(client.open(), b"never arrives")
    link.kick()
    link.lose()
    link.kick()
    silent = CloseOrigin.IDLE_TIMEOUT
    assert client.lost == server.lost == LinkLost(0, "idle timeout", by_peer=False, origin=silent)
    assert server.received == 0


@pytest.mark.parametrize("by_client", [False, True])
def test_an_error_of_quic_is_no_code_of_the_application(by_client: bool) -> None:
    link, client, server = pair()
    client.write(client.open(), b"never arrives")
    link.kick()
    link.fail(3, "a test", by_client=by_client)
    link.kick()
    quic = CloseOrigin.TRANSPORT
    assert client.lost == LinkLost(3, "a test", by_peer=not by_client, origin=quic)
    assert server.lost == LinkLost(3, "a test", by_peer=by_client, origin=quic)
    assert server.received == 0


def test_deadlines_of_engines_are_kept() -> None:
    link, client, _ = pair()
    client.wake_at = 1.5
    link.run_for(1.0)
    assert client.ticks == []
    link.run_for(1.0)
    assert client.ticks == [1.5]
    assert link.now == 2.0


def test_waiting_for_what_never_comes_ends() -> None:
    link, client, _ = pair()
    with pytest.raises(TimeoutError, match="nothing will happen"):
        link.run_until(lambda: False)
    client.wake_at = 100.0
    with pytest.raises(TimeoutError, match="60 seconds"):
        link.run_until(lambda: False)
