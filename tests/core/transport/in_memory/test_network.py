"""Many links on one clock, each with its own path; streams of both kinds, limits and outcomes."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramOutcome,
    Input,
    StreamLeft,
    StreamLimit,
)
from aqueduct_core.transport.in_memory.link import MemoryLink
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from tests.core.transport.probe import Probe


def pair(**options: object) -> tuple[MemoryLink, Probe, Probe]:
    client, server = Probe(client=True), Probe(client=False)
    return MemoryLink(client, server, **options), client, server  # type: ignore[arg-type]


def test_links_of_one_network_share_a_clock_and_nothing_else() -> None:
    network = MemoryNetwork(start=5.0)
    near, near_client, near_server = pair(network=network, delay=0.01)
    far, far_client, far_server = pair(network=network, delay=1.0)
    for client in (near_client, far_client):
        client.write(client.open(), b"hello", end=True)
    network.run_until(lambda: bool(near_server.ended))
    assert not far_server.ended
    assert near.now == far.now == network.now == pytest.approx(5.01)
    far.run_until(lambda: bool(far_server.ended))
    assert network.now == pytest.approx(6.0)
    near.lose()
    assert near_client.lost is None
    network.kick()
    assert near_client.lost is not None
    assert far_client.lost is None
    network.run_for(1.0)
    assert near.now == pytest.approx(7.0)


def test_one_program_between_two_links() -> None:
    """What comes on one link goes out on another, as in a relay."""
    network = MemoryNetwork()
    _, client, inner = pair(network=network, delay=0.1)
    _, outer, server = pair(network=network, delay=0.2)
    inner.on_input = lambda input: (
        outer.datagram(input.data) if hasattr(input, "data") else None  # type: ignore[func-returns-value]
    )
    client.datagram(b"through")
    network.run_until(lambda: bool(server.datagrams))
    assert server.datagrams == [b"through"]
    assert network.now == pytest.approx(0.3)


@pytest.mark.parametrize("rate", [None, 50_000.0])
def test_bidirectional_streams_are_answered_on_their_number(rate: float | None) -> None:
    link, client, server = pair(jitter=0.02, cut=0.5, rate=rate)
    server.echoes = client.echoes = True
    asked = [client.open(bidirectional=True) for _ in range(5)]
    asked_back = server.open(bidirectional=True)
    for stream in asked:
        client.write(stream, bytes(2_000), end=True)
    server.write(asked_back, bytes(500), end=True)
    link.run_until(lambda: set(asked) <= client.ended and asked_back in server.ended)
    assert {client.streams[stream] for stream in asked} == {2_000}
    assert server.digests[asked_back].digest() == client.digests[asked_back].digest()


def test_halves_of_a_stream_end_apart() -> None:
    link, client, server = pair()
    stream = client.open(bidirectional=True)
    client.write(stream, b"x")
    link.run_until(lambda: stream in server.streams)
    client.reset(stream, 3)
    server.write(stream, b"answer")
    client.stop(stream, 4)
    link.run_for(1.0)
    assert server.resets == {stream: 3}
    assert server.stops == {stream: 4}
    assert client.resets == {stream: 4}


def test_streams_beyond_the_limit_wait_for_others_to_end() -> None:
    link, client, server = pair(max_streams_uni=2, max_streams_bidi=1)
    seen: list[Input] = []
    client.on_input = seen.append
    both = [client.open(bidirectional=True) for _ in range(3)]
    one_way = [client.open() for _ in range(4)]
    for stream in (*both, *one_way):
        client.write(stream, b"x", end=True)
    client.reset(one_way[3], 9)
    link.run_for(0.015)
    assert server.ended == {both[0], *one_way[:2]}
    link.run_for(1.0)
    assert server.ended == {both[0], *one_way[:3]}
    assert server.resets == {one_way[3]: 9}
    server.write(both[0], b"answer", end=True)
    link.run_for(1.0)
    assert both[1] in server.ended
    assert both[2] not in server.ended
    limits = [input for input in seen if isinstance(input, StreamLimit)]
    assert limits[:2] == [StreamLimit(2), StreamLimit(1, bidirectional=True)]
    assert limits[-1] == StreamLimit(2, bidirectional=True)
    assert client.limits == {False: 6, True: 2}


@pytest.mark.parametrize("rate", [None, 100_000.0])
def test_what_becomes_of_each_datagram_is_told(rate: float | None) -> None:
    link, client, server = pair(seed=4, loss=0.3, datagram_outcomes=True, rate=rate)
    outcomes: dict[int, list[DatagramFate]] = {}

    def note(input: Input) -> None:
        if isinstance(input, DatagramOutcome) and input.outcome is not DatagramFate.LEFT:
            outcomes.setdefault(input.token, []).append(input.outcome)

    client.on_input = note
    for token in range(100):
        client.datagram(bytes([token]), token)
    link.run_for(5.0)
    assert client.ready is not None
    assert client.ready.datagram_outcomes
    assert len(outcomes) == 100
    acked = {token for token, told in outcomes.items() if told == [DatagramFate.ACKED]}
    assert acked == {data[0] for data in server.datagrams}
    assert all(outcomes[token] == [DatagramFate.LOST] for token in set(range(100)) - acked)


def test_a_close_of_the_transport_is_told_as_such() -> None:
    link, client, server = pair()
    client.close(2, "not now", CloseOrigin.TRANSPORT)
    link.run_for(1.0)
    assert server.lost is not None
    assert server.lost.origin is CloseOrigin.TRANSPORT
    assert server.lost.by_peer
    assert client.lost is not None
    assert client.lost.origin is CloseOrigin.TRANSPORT


@pytest.mark.parametrize("rate", [None, 100_000.0])
def test_what_has_left_of_each_stream_is_told_once(rate: float | None) -> None:
    link, client, server = pair(
        seed=3, cut=0.3, stream_progress=True, rate=rate, queue=5_000, stream_window=20_000
    )
    seen: list[StreamLeft] = []
    client.on_input = lambda input: seen.append(input) if isinstance(input, StreamLeft) else None  # type: ignore[func-returns-value]
    server.consumes = False
    one, other = client.open(), client.open(bidirectional=True)
    client.write(one, bytes(30_000), end=True)
    client.write(other, bytes(3_000), end=True)
    link.kick()
    told = len(seen)
    assert told == len({input.stream_id for input in seen})  # once a turn
    link.run_for(2.0)
    assert client.ready is not None
    assert client.ready.stream_progress
    last = {input.stream_id: input.total for input in seen}
    assert last == {one: 20_000, other: 3_000}  # what waits for credit has not left
    server.consume_owed()
    link.run_until(lambda: one in server.ended)
    totals = [input.total for input in seen if input.stream_id == one]
    assert totals == sorted(set(totals))
    assert totals[-1] == 30_000
    if rate is not None:
        assert len(totals) > 5  # as the path has taken it
        assert link.client.path is not None
        assert link.client.path.dropped > 0
