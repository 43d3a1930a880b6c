"""The patched aioquic connection: credit, streams with work, counting; under loss too."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.connection import LONGEST_CLOSING, MOST_ANSWERS
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.wire import CLIENT, SERVER, Wire, stock_client

KB = 1024


def settings(window: int = 1024 * KB, **other: object) -> LinkSettings:
    return LinkSettings(stream_window=window, connection_window=4 * window, **other)  # type: ignore[arg-type]


def test_a_peer_that_is_not_consumed_can_send_one_stream_window_and_no_more() -> None:
    wire = Wire(settings=settings(), server_consumes=False)
    wire.connect()
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, bytes(3_000 * KB), end=True)
    wire.rest(5.0)
    assert wire.server.probe.streams == {stream: 1024 * KB}
    assert wire.client.link.unsent == (3_000 - 1024) * KB
    # All of it is granted back, all of the rest comes.
    while stream not in wire.server.probe.ended:
        wire.server.probe.consume_owed()
        wire.rest(1.0)
    assert wire.server.probe.streams == {stream: 3_000 * KB}


def test_a_peer_that_is_not_consumed_can_send_one_connection_window_over_many_streams() -> None:
    wire = Wire(settings=settings(256 * KB), server_consumes=False)
    wire.connect()
    for _ in range(16):
        wire.client.probe.write(wire.client.probe.open(), bytes(200 * KB), end=True)
    wire.rest(5.0)
    assert wire.server.probe.received == 1024 * KB
    wire.server.probe.consumes = True
    wire.server.probe.consume_owed()
    wire.run(lambda: len(wire.server.probe.ended) == 16)


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_content_survives_loss_and_reordering(seed: int) -> None:
    """Fuzzes the service order of streams: whatever is lost, every byte arrives in order."""
    rng = random.Random(seed)
    wire = Wire(seed=seed, loss=0.08, jitter=0.01, settings=settings(64 * KB), server_echoes=True)
    wire.connect()
    probe, server = wire.client.probe, wire.server.probe
    sent: dict[int, bytes] = {}
    for _ in range(60):
        stream = probe.open()
        data = rng.randbytes(rng.choice([0, 1, 90, 1_500, 20_000, 200_000]))
        cut = rng.randrange(len(data) + 1)
        probe.write(stream, data[:cut])
        wire.pump()
        if rng.random() < 0.3:
            wire.rest(0.02)
        probe.write(stream, data[cut:], end=True)
        sent[stream] = data
    wire.run(lambda: len(server.ended) == 60 and len(probe.ended) == 60)
    for stream, data in sent.items():
        assert server.digests[stream].digest() == hashlib.sha256(data).digest()
    wire.rest(5.0)
    assert wire.client.link.unsent == 0
    assert wire.server.link.unsent == 0
    # Every finished stream is forgotten, and its credit and its place are given back.
    for end in wire.ends:
        quic = end.link._quic
        assert len(quic._table) == 0
        assert not len(quic._order)
        assert not quic._order.starved
        assert quic._local_max_data.used == quic._consumed


def test_a_reset_gives_back_the_credit_of_what_is_never_delivered() -> None:
    wire = Wire(settings=settings(64 * KB), loss=0.05)
    wire.connect()
    for _ in range(40):
        stream = wire.client.probe.open()
        wire.client.probe.write(stream, os.urandom(60 * KB))
        wire.pump()
        wire.client.probe.reset(stream, 7)
        wire.run(partial(wire.server.probe.resets.__contains__, stream))
    wire.rest(3.0)
    assert set(wire.server.probe.resets.values()) == {7}
    assert wire.client.link.unsent == 0
    quic = wire.server.link._quic
    assert quic._local_max_data.used == quic._consumed
    assert len(wire.client.link._quic._table) == 0
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, bytes(300 * KB), end=True)
    wire.run(lambda: stream in wire.server.probe.ended)


def test_a_stopped_stream_delivers_nothing_more_and_holds_no_credit() -> None:
    wire = Wire(settings=settings(64 * KB))
    wire.connect()
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, bytes(10 * KB))
    wire.run(lambda: wire.server.probe.received == 10 * KB)
    wire.server.probe.stop(stream, 3)
    wire.client.probe.write(stream, bytes(500 * KB))
    wire.run(lambda: stream in wire.client.probe.stops)
    assert wire.client.probe.stops == {stream: 3}
    wire.client.probe.write(stream, b"ignored from here on")
    wire.rest(2.0)
    assert wire.server.probe.received == 10 * KB
    assert wire.client.link.unsent == 0
    quic = wire.server.link._quic
    assert quic._local_max_data.used == quic._consumed
    assert wire.server.probe.resets == {stream: 3}


def test_streams_beyond_the_limit_wait_until_others_end() -> None:
    wire = Wire(settings=settings(max_streams_uni=10))
    wire.connect()
    probe = wire.client.probe
    for _ in range(100):
        probe.write(probe.open(), b"x" * 100, end=True)
    wire.run(lambda: len(wire.server.probe.ended) == 100)
    assert wire.server.probe.received == 100 * 100


def test_open_streams_beyond_the_limit_wait_unopened() -> None:
    wire = Wire(settings=settings(max_streams_uni=10))
    wire.connect()
    probe = wire.client.probe
    ids = [probe.open() for _ in range(30)]
    for stream in ids:
        probe.write(stream, b"hello")
    wire.rest(2.0)
    assert sorted(wire.server.probe.streams) == ids[:10]
    for stream in ids[:5]:
        probe.write(stream, b"", end=True)
    wire.rest(2.0)
    assert sorted(wire.server.probe.streams) == ids[:15]


def test_streams_opened_by_skipping_cost_nothing_until_used() -> None:
    wire = Wire(settings=settings())
    wire.connect()
    quic = wire.client.link._quic
    quic._local_next_stream_id_uni = 2 + 4 * 60_000
    quic.send_stream_data(2 + 4 * 60_000, b"far", end_stream=True)
    wire.run(lambda: bool(wire.server.probe.ended))
    server = wire.server.link._quic
    assert len(server._table) <= 1
    assert server._local_max_streams_uni.used == 60_001
    quic._local_next_stream_id_uni = 2
    quic.send_stream_data(2, b"near", end_stream=True)
    wire.run(lambda: 2 in wire.server.probe.ended)


def test_packets_that_only_acknowledge_are_not_remembered_without_bound() -> None:
    wire = Wire(settings=settings(), server_consumes=False)
    wire.connect()
    stream = wire.client.probe.open()
    server = wire.server.link._quic
    for _ in range(3_000):
        wire.client.probe.write(stream, b"x")
        wire.rest(0.03)
    assert wire.server.probe.streams == {stream: 3_000}
    space = server._spaces[Epoch.ONE_RTT]
    assert len(space.sent_packets) <= 4 * MOST_ANSWERS
    assert len(space.ack_queue) == 1
    assert server._loss.bytes_in_flight == 0


def test_a_bidirectional_stream_of_a_stock_peer_is_an_error() -> None:
    peer, link, out = stock_client(LinkSettings())
    now = 1.0
    while link.lost is None and now < 2.0:
        link.receive([(data, CLIENT) for data in out], now)
        for data, _ in link.transmit(now):
            peer.receive_datagram(data, SERVER, now)
        if link.ready and peer._remote_max_streams_bidi == 0:
            peer._remote_max_streams_bidi = 1
            peer.send_stream_data(0, b"x")
        now += 0.01
        out = [data for data, _ in peer.datagrams_to_send(now)]
    assert link.ready
    assert link.lost is not None
    assert not link.lost.by_peer
    assert "Too many streams" in link.lost.reason


def executed(step: Callable[[], object]) -> int:
    """Lines of Python that a step executes: what it costs, on a machine however busy."""
    count, before = 0, sys.gettrace()

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    sys.settrace(line)
    try:
        step()
    finally:
        sys.settrace(before)
    return count


def test_cost_of_a_datagram_does_not_grow_with_open_streams() -> None:
    """With a walk over 10,000 open streams for each packet this is 20 and more times as much."""

    def cost(open_streams: int) -> int:
        wire = Wire(settings=settings())
        wire.connect()
        probe = wire.client.probe
        for _ in range(open_streams):
            probe.write(probe.open(), b"open")
        wire.run(lambda: len(wire.server.probe.streams) == open_streams)
        wire.rest(1.0)
        stream = probe.open()

        def send() -> None:
            probe.write(stream, bytes(300 * KB))
            wire.run(lambda: wire.client.link.unsent == 0)

        return executed(send)

    assert cost(10_000) < 1.2 * cost(1)


def test_many_small_streams_are_sent_without_a_walk_for_each_packet() -> None:
    def cost(streams: int) -> int:
        wire = Wire(settings=settings())
        wire.connect()
        probe = wire.client.probe

        def send() -> None:
            for _ in range(streams):
                probe.write(probe.open(), b"m" * 60, end=True)
            wire.run(lambda: len(wire.server.probe.ended) == streams)

        return executed(send)

    assert cost(5_000) < 1.2 * 10 * cost(500)


def test_where_the_window_is_full_streams_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that acknowledges nothing and goes on sending would have a hundred of ours looked at
    each time; what has ended is discarded all the same."""
    wire = Wire()
    wire.connect()
    wire.rest(0.5)
    carry = wire._carry
    server, quic = wire.server.probe, wire.server.link._quic
    with monkeypatch.context() as deaf:
        deaf.setattr(wire, "_carry", lambda end, data: end is wire.server or carry(end, data))
        for _ in range(1_000):
            server.write(server.open(), b"x" * 50)
        wire.pump()
        asked: list[object] = []
        write = quic._write_stream_frame

        def counted(**given: object) -> Any:
            asked.append(given)
            return write(**given)

        deaf.setattr(quic, "_write_stream_frame", counted)
        for _ in range(20):
            wire.client.probe.write(wire.client.probe.open(), b"y", end=True)
            wire.pump()
            wire.now += 0.001
        wire.run(lambda: len(server.ended) == 20)
        assert len(asked) < 2_000  # of probes, which may exceed the window
        wire.run(lambda: len(quic._table) == 1_000)
    wire.run(lambda: len(wire.client.probe.streams) == 1_000)


@pytest.mark.parametrize("by_peer", [False, True])
def test_closing_is_short_on_a_path_that_looked_slow(by_peer: bool) -> None:
    """One answer that took long, as from a process that stood still, makes a long probe timeout:
    nobody is to wait three of these for the end."""
    wire = Wire(settings=settings(idle_timeout=300.0))
    wire.connect()
    wire.rest(1.0)
    wire.delay = 3.0
    wire.client.probe.write(wire.client.probe.open(), b"slow", end=True)
    wire.rest(1.0)
    wire.run(lambda: wire.client.link.unsent == 0)
    closing = wire.client.link._quic._loss.get_probe_timeout() * 3
    assert closing > 2 * LONGEST_CLOSING
    wire.delay = 0.005
    (wire.server if by_peer else wire.client).link.close(0, "over")
    begun = wire.now
    wire.run(lambda: wire.client.link.closed)
    assert wire.now - begun < LONGEST_CLOSING + 0.1


def test_too_much_credit_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    wire = Wire(settings=settings(64 * KB))
    wire.connect()
    stream = wire.client.probe.open()
    wire.client.probe.write(stream, b"four")
    wire.run(lambda: wire.server.probe.received == 4)
    quic = wire.server.link._quic
    quic.consume(stream, 1_000_000)
    assert quic._consumed == quic._local_max_data.used
    assert "credit for 1000000 bytes" in caplog.text
