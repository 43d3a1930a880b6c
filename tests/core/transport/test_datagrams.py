"""Datagrams of a link: what has left, what became of each, and that streams go on beside them."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.contract import (
    DatagramDelivered,
    DatagramLost,
    DatagramRefused,
    DatagramsLeft,
    Fact,
    LinkReady,
    LinkRoom,
)
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.wire import Wire

OUTCOMES = LinkSettings(datagram_outcomes=True)


def watched(wire: Wire) -> list[Fact]:
    """The facts of the client, as they come."""
    seen: list[Fact] = []
    wire.client.probe.on_fact = seen.append
    wire.connect()
    return seen


def of(seen: list[Fact], *kinds: type) -> list[int]:
    return [fact.token for fact in seen if isinstance(fact, kinds)]  # type: ignore[union-attr]


def test_datagrams_leave_in_their_order_as_the_window_lets_them() -> None:
    wire = Wire(delay=0.05)
    seen = watched(wire)
    rooms = [fact.size for fact in seen if isinstance(fact, LinkRoom)]
    assert 12_000 <= rooms[0] < 20_000  # the first congestion window
    for token in range(100):
        wire.client.probe.datagram(bytes(1_000), token=token)
    wire.client.probe.datagram(bytes(2_000), token=100)
    wire.pump()
    (first,) = of(seen, DatagramsLeft)
    assert 0 < first < 20
    assert wire.client.link.backlogged
    assert of(seen, DatagramRefused) == [100]
    wire.run(lambda: len(wire.server.probe.datagrams) == 100)
    tokens = of(seen, DatagramsLeft)
    assert tokens == sorted(set(tokens))
    assert tokens[-1] == 99
    assert not wire.client.link.backlogged
    rooms = [fact.size for fact in seen if isinstance(fact, LinkRoom)]
    assert rooms[-1] > rooms[0]  # slow start
    assert of(seen, DatagramDelivered, DatagramLost) == []


def test_each_datagram_has_its_outcome_for_an_engine_that_asks() -> None:
    wire = Wire(delay=0.02, settings=OUTCOMES)
    seen = watched(wire)
    assert any(isinstance(fact, LinkReady) and fact.datagram_outcomes for fact in seen)
    wire.loss = 0.2
    for token in range(200):
        wire.client.probe.datagram(token.to_bytes(2, "big") + bytes(998), token=token)
    wire.run(lambda: len(of(seen, DatagramDelivered, DatagramLost)) == 200)
    delivered, lost = of(seen, DatagramDelivered), of(seen, DatagramLost)
    assert sorted(delivered + lost) == list(range(200))
    assert len(lost) > 10
    arrived = {int.from_bytes(data[:2], "big") for data in wire.server.probe.datagrams}
    assert set(delivered) <= arrived
    # wrong only where it is the acknowledgement that was lost
    assert len(arrived & set(lost)) < 10


@pytest.mark.parametrize("size", [50, 1_000])
def test_streams_and_datagrams_take_turns(size: int) -> None:
    """Neither is ahead by more than what fits a few packets, whichever was there first."""
    wire = Wire(delay=0.02)
    wire.connect()
    client, server = wire.client.probe, wire.server.probe
    total = 400_000
    for token in range(total // size):
        client.datagram(bytes(size), token=token)
    stream = client.open()
    client.write(stream, bytes(total), end=True)
    wire.run(lambda: server.streams.get(stream, 0) > total // 2)
    behind = size * len(server.datagrams) / server.streams[stream]
    assert 0.6 < behind < 1.4
    wire.run(lambda: stream in server.ended and len(server.datagrams) == total // size)


def test_a_stream_does_not_take_the_window_bit_by_bit_from_a_datagram() -> None:
    """Acknowledgements of short packets free short pieces of the window, which only a stream
    could use."""
    wire = Wire(delay=0.02)
    wire.connect()
    client, server = wire.client.probe, wire.server.probe
    stream = client.open()
    for _ in range(400):
        client.write(stream, bytes(90))
        wire.pump()
    for token in range(50):
        client.datagram(bytes(1_100), token=token)
    client.write(stream, bytes(400_000))
    wire.run(lambda: len(server.datagrams) == 50)
    assert server.streams[stream] < 200_000


def test_a_stream_that_has_nothing_to_send_costs_datagrams_no_turn() -> None:
    """A stream waits for credit of its own, and stays in line for that."""
    settings = LinkSettings(stream_window=20_000, connection_window=20_000)
    wire = Wire(delay=0.02, settings=settings, server_consumes=False)
    wire.connect()
    client, server = wire.client.probe, wire.server.probe
    for _ in range(30):
        client.write(client.open(), bytes(2_000))
    for token in range(300):
        client.datagram(bytes(1_000), token=token)
    wire.run(lambda: len(server.datagrams) == 300, limit=5.0)
