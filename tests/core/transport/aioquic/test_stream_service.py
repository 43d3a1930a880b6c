"""Bidirectional streams: both halves of both sides, beside the library's own end and under loss."""

from __future__ import annotations

import hashlib
import random
from functools import partial

import pytest
from aioquic.quic.events import StreamDataReceived

from aqueduct_core.engine.actions import WriteStream
from aqueduct_core.engine.inputs import StreamReset, StreamStopped
from aqueduct_core.transport.aioquic.connection import STREAM_BYTES
from aqueduct_core.transport.aioquic.factory import STREAMS_OF_STRANGERS
from aqueduct_core.transport.link import AcceptTerms
from aqueduct_core.transport.settings import LinkSettings
from tests.core.transport.early import early_terms, second, session_of
from tests.core.transport.probe import Probe
from tests.core.transport.wire import CLIENT, SERVER, End, Wire, stock_client

KB = 1024


def settings(window: int = 1024 * KB, streams: int = 100, **other: object) -> LinkSettings:
    return LinkSettings(
        stream_window=window,
        connection_window=4 * window,
        max_streams_bidi=streams,
        **other,  # type: ignore[arg-type]
    )


def connected(**options: object) -> Wire:
    given: dict[str, object] = {"settings": settings(), **options}
    wire = Wire(**given)  # type: ignore[arg-type]
    wire.connect()
    return wire


def nothing_left(end: End) -> bool:
    quic = end.link._quic
    return (
        len(quic._table) == 0
        and quic._table.halves == 0
        and not len(quic._order)
        and not quic._order.starved
        and not end.link._incoming._unwanted
        and not end.link._incoming._stopped
        and quic._local_max_data.used == quic._consumed
        and end.link.unsent == 0
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 3))])
def test_what_is_asked_on_a_stream_is_answered_on_it_whatever_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    wire = Wire(
        seed=seed, loss=0.08, jitter=0.01, settings=settings(64 * KB, 10), server_echoes=True
    )
    wire.connect()
    probe = wire.client.probe
    sent: dict[int, bytes] = {}
    for _ in range(30):
        stream = probe.open(bidirectional=True)
        sent[stream] = data = rng.randbytes(rng.choice([0, 1, 90, 1_500, 20_000, 200_000]))
        cut = rng.randrange(len(data) + 1)
        probe.write(stream, data[:cut])
        wire.pump()
        probe.write(stream, data[cut:], end=True)
    wire.run(lambda: len(probe.ended) == 30)
    for stream, data in sent.items():
        assert probe.digests[stream].digest() == hashlib.sha256(data).digest(), stream
    wire.rest(5.0)
    assert all(map(nothing_left, wire.ends))


def test_a_server_opens_them_as_well() -> None:
    wire = connected()
    wire.client.probe.echoes = True
    stream = wire.server.probe.open(bidirectional=True)
    assert stream == 1
    wire.server.probe.write(stream, b"from the server", end=True)
    wire.run(lambda: stream in wire.server.probe.ended)
    assert wire.server.probe.streams == wire.client.probe.streams == {1: 15}
    wire.rest(1.0)
    assert all(map(nothing_left, wire.ends))


def test_the_library_s_own_end_speaks_them_both_ways() -> None:
    peer, link, out = stock_client(settings())
    probe = Probe(client=False, echoes=True)
    got: dict[int, bytes] = {}
    asked = False
    now = 1.0
    while {stream: len(data) for stream, data in got.items()} != {0: 200_000, 1: 4}:
        assert now < 5.0
        link.receive([(data, CLIENT) for data in out], now)
        for input in link.inputs():
            probe.handle(input, now)
        if link.ready and not asked:
            asked = True
            peer.send_stream_data(0, bytes(200_000), end_stream=True)
            probe.write(probe.open(bidirectional=True), b"tell", end=True)
        link.apply(probe.actions(), now)
        for data, _ in link.transmit(now):
            peer.receive_datagram(data, SERVER, now)
        while (event := peer.next_event()) is not None:
            if isinstance(event, StreamDataReceived):
                got[event.stream_id] = got.get(event.stream_id, b"") + event.data
                if event.stream_id == 1 and event.end_stream:
                    peer.send_stream_data(1, b"told", end_stream=True)
        now += 0.001
        out = [data for data, _ in peer.datagrams_to_send(now)]
    assert got[0] == bytes(200_000)
    assert probe.limits == {False: 128, True: 128}


def test_one_half_is_reset_and_the_other_goes_on() -> None:
    wire = connected()
    client, server = wire.client.probe, wire.server.probe
    stream = client.open(bidirectional=True)
    client.write(stream, b"question")
    wire.run(lambda: stream in server.streams)
    client.reset(stream, 7)
    wire.run(lambda: stream in server.resets)
    server.write(stream, bytes(100 * KB), end=True)
    wire.run(lambda: stream in client.ended)
    assert client.streams == {stream: 100 * KB}
    wire.rest(1.0)
    assert all(map(nothing_left, wire.ends))


def test_one_half_is_stopped_and_the_other_goes_on() -> None:
    wire = connected(settings=settings(64 * KB))
    client, server = wire.client.probe, wire.server.probe
    stream = client.open(bidirectional=True)
    client.write(stream, b"question")
    wire.run(lambda: stream in server.streams)
    client.stop(stream, 3)
    server.write(stream, bytes(40 * KB))
    wire.run(lambda: stream in server.stops)
    assert server.stops == {stream: 3}
    server.write(stream, b"which nobody wants any more", end=True)
    client.write(stream, bytes(300 * KB), end=True)
    wire.run(lambda: stream in server.ended)
    wire.rest(1.0)
    assert client.resets == {stream: 3}
    assert client.received == 0
    server.write(stream, b"neither when the stream is gone")
    wire.rest(1.0)
    assert wire.server.link.lost is None
    assert all(map(nothing_left, wire.ends))


def test_each_direction_has_its_own_window() -> None:
    wire = connected(settings=settings(64 * KB), server_consumes=False)
    client, server = wire.client.probe, wire.server.probe
    client.consumes = False
    stream = client.open(bidirectional=True)
    client.write(stream, bytes(200 * KB), end=True)
    wire.run(lambda: stream in server.streams)
    server.write(stream, bytes(200 * KB), end=True)
    wire.rest(5.0)
    assert client.streams == server.streams == {stream: 64 * KB}
    client.consumes = server.consumes = True
    client.consume_owed()
    server.consume_owed()
    wire.run(lambda: stream in client.ended and stream in server.ended)
    wire.rest(1.0)
    assert all(map(nothing_left, wire.ends))


def test_streams_beyond_the_limit_wait_until_both_halves_of_others_have_ended() -> None:
    wire = connected(settings=settings(streams=4))
    client, server = wire.client.probe, wire.server.probe
    wire.rest(0.5)
    assert client.limits[True] == 4
    ids = [client.open(bidirectional=True) for _ in range(10)]
    for stream in ids:
        client.write(stream, b"asked", end=True)
    wire.rest(2.0)
    assert sorted(server.ended) == ids[:4]
    for stream in ids[:4]:
        server.write(stream, b"answered", end=True)
    wire.rest(2.0)
    assert sorted(server.ended) == ids[:8]
    assert client.limits[True] == 8


def test_what_is_reset_before_it_may_be_opened_stays_within_the_limit() -> None:
    wire = connected(settings=settings(streams=1, max_streams_uni=1))
    client, server = wire.client.probe, wire.server.probe
    for bidirectional in (False, True):
        ids = [client.open(bidirectional=bidirectional) for _ in range(3)]
        for stream in ids:
            client.write(stream, b"x")
        client.reset(ids[1], 5)
        if bidirectional:
            client.stop(ids[1], 6)
        wire.rest(1.0)
        assert wire.server.link.lost is None
        assert ids[0] in server.streams
        client.write(ids[0], b"", end=True)
        client.write(ids[2], b"", end=True)
        wire.rest(0.5)
        if bidirectional:
            server.write(ids[0], b"", end=True)
            wire.run(partial(server.stops.__contains__, ids[1]))
            server.write(ids[1], b"", end=True)
        wire.run(partial(server.resets.__contains__, ids[1]))
        wire.run(partial(server.ended.__contains__, ids[2]))


def test_what_is_reset_before_it_was_written_gives_its_place_back() -> None:
    """A higher stream has opened it at the peer, which grants no other one while it is there."""
    wire = connected(settings=settings(streams=4, max_streams_uni=4))
    client, server = wire.client.probe, wire.server.probe
    for bidirectional in (False, True):
        for _ in range(10):
            given_up, used = (client.open(bidirectional=bidirectional) for _ in range(2))
            client.write(used, b"", end=True)
            client.reset(given_up, 5)  # behind what was written, as actions come
            wire.run(partial(server.resets.__contains__, given_up))
            wire.run(partial(server.ended.__contains__, used))
            if bidirectional:
                server.write(used, b"", end=True)
                server.write(given_up, b"", end=True)
    wire.rest(2.0)
    assert all(map(nothing_left, wire.ends))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_who_has_few_streams_left_is_told_of_each(bidirectional: bool) -> None:
    """However few of those that are open come to an end."""
    wire = connected(settings=settings(streams=20, max_streams_uni=20))
    client, server = wire.client.probe, wire.server.probe
    wire.rest(0.5)
    ids = [client.open(bidirectional=bidirectional) for _ in range(15)]
    for stream in ids:
        client.write(stream, b"x")
    client.write(ids[7], b"", end=True)
    wire.run(lambda: ids[7] in server.ended)
    if bidirectional:
        server.write(ids[7], b"", end=True)
    wire.rest(2.0)
    assert client.limits[bidirectional] == 21


def test_streams_opened_by_skipping_cost_nothing_until_used() -> None:
    wire = connected(settings=settings(streams=60_001))
    quic = wire.client.link._quic
    quic.send_stream_data(4 * 60_000, b"far", end_stream=True)
    wire.run(lambda: bool(wire.server.probe.ended))
    server = wire.server.link._quic
    assert len(server._table) <= 1
    assert server._local_max_streams_bidi.used == 60_001
    assert wire.server.link.footprint < wire.client.link.footprint + 10 * STREAM_BYTES
    quic.send_stream_data(0, b"near", end_stream=True)
    wire.run(lambda: 0 in wire.server.probe.ended)


def test_a_stranger_has_few_of_each_kind() -> None:
    wire = Wire(settings=settings(streams=1_000))
    wire.run(lambda: wire._started)
    wire.server.probe.admits = False
    wire.connect()
    client, server = wire.client.probe, wire.server.probe
    for bidirectional in (False, True):
        for _ in range(100):
            client.write(client.open(bidirectional=bidirectional), b"x", end=True)
    wire.rest(2.0)
    assert client.limits[True] == STREAMS_OF_STRANGERS
    open_bidi = [stream for stream in server.streams if not stream & 2]
    assert len(open_bidi) == STREAMS_OF_STRANGERS


def test_streams_that_a_peer_begins_and_stops_leave_nothing_behind() -> None:
    wire = connected(settings=settings(streams=8), server_echoes=True)
    client = wire.client.probe
    for _ in range(100):
        stream = client.open(bidirectional=True)
        client.write(stream, bytes(3 * KB), end=True)
        client.stop(stream, 1)
    wire.run(lambda: wire.server.probe.opened is not None and len(wire.server.probe.ended) == 100)
    wire.rest(2.0)
    assert all(map(nothing_left, wire.ends))


def test_streams_left_open_are_charged_for_both_halves() -> None:
    wire = connected()
    before = wire.server.link.footprint
    for _ in range(50):
        wire.client.probe.write(wire.client.probe.open(bidirectional=True), b"x")
    wire.run(lambda: len(wire.server.probe.streams) == 50)
    wire.rest(1.0)
    assert wire.server.link.footprint - before >= 2 * 50 * STREAM_BYTES


def test_what_is_no_stream_of_ours_to_write_is_an_error() -> None:
    wire = connected()
    for stream in (3, 1):  # unidirectional of the peer; bidirectional, and never opened
        with pytest.raises(ValueError, match=f"stream {stream}"):
            wire.client.link.apply([WriteStream(stream, b"x", False)], wire.now)


@pytest.mark.parametrize("accepts", [True, False])
def test_early_streams_of_both_kinds_arrive_once(accepts: bool) -> None:
    allowed = settings(16 * KB)
    terms = early_terms()
    again: AcceptTerms = terms if accepts else early_terms()
    it = second(session_of(terms, allowed), again, settings=allowed, loss=0.1, server_echoes=True)
    rng = random.Random(3)
    probe = it.wire.client.probe
    sent = {}
    for number in range(20):
        stream = probe.open(bidirectional=bool(number % 2))
        sent[stream] = data = rng.randbytes(rng.choice((0, 40, 30_000)))
        probe.write(stream, data, end=True)
    stopped = probe.open(bidirectional=True)
    probe.write(stopped, b"asked, and not waited for", end=True)
    it.wire.pump()
    probe.stop(stopped, 9)
    it.wire.run(lambda: len(it.wire.ends) == 2)
    server = it.wire.server.probe
    it.wire.run(lambda: sent.keys() <= server.ended and stopped in server.ended)
    both = {stream for stream in sent if not stream & 2}
    it.wire.run(lambda: both <= probe.ended)
    for stream, data in sent.items():
        assert server.digests[stream].digest() == hashlib.sha256(data).digest()
    for stream in both:
        assert probe.digests[stream].digest() == hashlib.sha256(sent[stream]).digest()
    it.wire.rest(3.0)
    assert it.wire.client.link.early_accepted is accepts
    assert accepts or stopped in server.stops  # else the answer may have come first
    assert all(map(nothing_left, it.wire.ends))


def test_inputs_of_both_halves_come_for_one_number() -> None:
    wire = connected()
    seen: list[object] = []
    wire.server.probe.on_input = seen.append
    stream = wire.client.probe.open(bidirectional=True)
    wire.client.probe.write(stream, b"x")
    wire.client.probe.stop(stream, 1)
    wire.rest(0.2)
    wire.client.probe.reset(stream, 2)
    wire.rest(0.2)
    assert StreamStopped(stream, 1) in seen
    assert StreamReset(stream, 2) in seen
