"""Datagrams of a link: what has left, what became of each, and that streams go on beside them."""

from __future__ import annotations

import pytest

from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome, Input, LinkReady, LinkRoom
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.early import early_terms, second, session_of
from tests.core.transport.wire import Wire

OUTCOMES = LinkSettings(datagram_outcomes=True)


def watched(wire: Wire) -> list[Input]:
    """The inputs of the client, as they come."""
    seen: list[Input] = []
    wire.client.probe.on_input = seen.append
    wire.connect()
    return seen


def of(seen: list[Input], *outcomes: DatagramFate) -> list[int]:
    return [
        input.token
        for input in seen
        if isinstance(input, DatagramOutcome) and input.outcome in outcomes
    ]


def test_datagrams_leave_in_their_order_as_the_window_lets_them() -> None:
    wire = Wire(delay=0.05)
    seen = watched(wire)
    rooms = [input.size for input in seen if isinstance(input, LinkRoom)]
    assert 12_000 <= rooms[0] < 20_000  # the first congestion window
    for token in range(100):
        wire.client.probe.datagram(bytes(1_000), token=token)
    wire.client.probe.datagram(bytes(2_000), token=100)
    wire.pump()
    (first,) = of(seen, DatagramFate.LEFT)
    assert 0 < first < 20
    assert wire.client.link.backlogged
    assert of(seen, DatagramFate.REFUSED) == [100]
    wire.run(lambda: len(wire.server.probe.datagrams) == 100)
    tokens = of(seen, DatagramFate.LEFT)
    assert tokens == sorted(set(tokens))
    assert tokens[-1] == 99
    assert not wire.client.link.backlogged
    rooms = [input.size for input in seen if isinstance(input, LinkRoom)]
    assert rooms[-1] > rooms[0]  # slow start
    assert of(seen, DatagramFate.ACKED, DatagramFate.LOST) == []


def test_a_peer_that_takes_no_datagrams_is_sent_none_not_even_an_empty_one() -> None:
    wire = Wire(server_settings=LinkSettings(max_datagram_frame_size=0))
    wire.connect()
    probe = wire.client.probe
    for token, data in enumerate((b"", b"x")):
        probe.datagram(data, token)
    wire.rest(0.5)
    assert probe.refused == [0, 1]
    assert wire.server.probe.lost is None


def test_each_datagram_has_its_outcome_for_an_engine_that_asks() -> None:
    wire = Wire(delay=0.02, settings=OUTCOMES)
    seen = watched(wire)
    assert any(isinstance(input, LinkReady) and input.datagram_outcomes for input in seen)
    wire.loss = 0.2
    for token in range(200):
        wire.client.probe.datagram(token.to_bytes(2, "big") + bytes(998), token=token)
    wire.run(lambda: len(of(seen, DatagramFate.ACKED, DatagramFate.LOST)) == 200)
    delivered, lost = of(seen, DatagramFate.ACKED), of(seen, DatagramFate.LOST)
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
    seen = watched(wire)
    wire.rest(1.0)
    quic = wire.client.link._quic
    probe = wire.client.probe
    quic._loss._cc.congestion_window = quic._loss.bytes_in_flight + 600
    probe.datagram(bytes(1_000), token=1)
    stream = probe.open()
    probe.write(stream, bytes(10_000))
    wire.pump()
    assert of(seen, DatagramFate.LEFT) == []
    assert quic._table[stream].sender.highest_offset == 0
    quic._loss._cc.congestion_window += 600
    wire.pump()
    assert of(seen, DatagramFate.LEFT) == [1]
    assert quic._table[stream].sender.highest_offset < 200  # what is left of its packet
    quic._loss._cc.congestion_window += 600
    wire.pump()
    assert quic._table[stream].sender.highest_offset > 400


def test_streams_that_have_nothing_to_send_cost_datagrams_no_turn() -> None:
    """A stream was written to and has no credit: that is found out when its turn comes."""
    settings = LinkSettings(stream_window=20_000)
    wire = Wire(delay=0.02, settings=settings, server_consumes=False)
    seen = watched(wire)
    probe = wire.client.probe
    stream = probe.open()
    probe.write(stream, bytes(30_000))
    wire.rest(1.0)
    assert wire.server.probe.streams == {stream: 20_000}
    probe.write(stream, b"more")
    for token in range(3):
        probe.datagram(bytes(1_000), token=token)
    wire.pump()
    assert of(seen, DatagramFate.LEFT) == [2]


def test_a_datagram_that_was_rejected_with_early_data_is_lost() -> None:
    it = second(session_of(early_terms()), early_terms(), settings=OUTCOMES)
    it.wire.client.probe.datagram(b"an early datagram", token=7)
    it.write(b"a stream, which is repeated")
    it.run_until_all_is_there()
    assert of(it.client_inputs, DatagramFate.LOST, DatagramFate.ACKED) == [7]
    assert DatagramOutcome(7, DatagramFate.LOST) in it.client_inputs


def test_those_that_were_given_before_the_close_leave_before_it() -> None:
    """They may say why; what is given behind it does not leave."""
    wire = Wire(delay=0.05)
    seen = watched(wire)
    for token in range(3):
        wire.client.probe.datagram(b"parting %d" % token, token=token)
    wire.client.probe.close(7, "over")
    wire.client.probe.datagram(b"too late", token=3)
    wire.run(lambda: wire.server.probe.lost is not None)
    assert wire.server.probe.datagrams == [b"parting 0", b"parting 1", b"parting 2"]
    assert wire.server.probe.lost is not None
    assert wire.server.probe.lost.code == 7
    assert wire.client.probe.lost is seen[-1]  # nothing is told behind that
