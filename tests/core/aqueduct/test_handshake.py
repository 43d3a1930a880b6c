"""Version handshake and connection headers."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AckMode, AqueductEngine, Config, Mode, Side
from aqueduct_core.aqueduct.events import Closed, DatagramsUnavailable, End, Ended, Opened
from aqueduct_core.aqueduct.faults import Code, NotAllowed
from aqueduct_core.engine.inputs import LinkReady
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire

AUTO = Config(auto_accept=True)


def raw_server(config: Config = AUTO) -> Wire:
    return Wire(AqueductEngine(Side.SERVER, ((b"s", b"1"),), config))


@rule("AQ-VER-1", "AQ-HDR-6")
def test_a_client_sends_before_it_hears_anything() -> None:
    client = Wire(AqueductEngine(Side.CLIENT, ((b"k", b"v"),)))
    client.engine.send(0, b"hi", now=0)
    assert client.sent() == ["2: V0204016b0176 FIN", "6: V030004000000026869"]
    client.stream("V010200")
    client.engine.send(0, b"hi", now=0)
    # the running stream is not changed, new sequences carry no VERSION
    assert client.sent() == ["10: 01 FIN", "6: 04010000026869"]


@rule("AQ-VER-2", "AQ-VER-6")
def test_one_ack_version_however_many_versions() -> None:
    server = raw_server()
    server.stream("V", 2)
    server.stream("V", 6)
    server.datagram("V")
    server.stream("V", 2)
    server.stream("0200", 2, end=True)
    assert server.sent() == ["3: V02040173013101 FIN"]
    assert server.code is None


@rule("AQ-VER-2")
def test_a_version_in_a_datagram_counts() -> None:
    server = raw_server()
    server.datagram("V")
    assert server.sent() == ["3: V01 FIN"]


@rule("AQ-VER-4", "AQ-SEQ-6")
@pytest.mark.parametrize("text", ["0200", "", "030004000000026869", "01"])
def test_what_does_not_begin_with_version(text: str) -> None:
    server = raw_server()
    server.stream(text, 2, end=True)
    assert server.code == Code.VERSION
    assert [type(event) for event in server.all_events()][-1] is Closed
    server = raw_server()
    server.datagram(text)
    assert server.code == Code.VERSION


@rule("AQ-SEQ-6")
def test_an_empty_sequence_later_is_nothing() -> None:
    server = Wire.server()
    server.stream("", end=True)
    server.datagram("")
    assert server.code is None
    assert server.all_events() == []


@rule("AQ-VER-5")
def test_later_sequences_with_and_without_version() -> None:
    server = Wire.server()
    server.stream("030004000000026869")
    server.stream("V030004010000026869")
    assert [batch.count for batch in server.events(MessageBatch)] == [2]


@rule("AQ-VER-7")
def test_ack_version_before_any_version_of_ours() -> None:
    server = raw_server()
    server.stream("V01", 2)
    assert server.code == Code.PROTOCOL


@rule("AQ-VER-7", "AQ-HDR-5")
def test_ack_version_is_not_held_and_may_repeat() -> None:
    client = Wire(AqueductEngine(Side.CLIENT))
    client.pump()
    client.stream("V01", 3)
    client.stream("01", 7)
    client.sent()
    client.engine.send(0, b"", now=0)
    assert client.sent() == ["10: 030004000000" + "00"]
    assert client.engine.peer_headers is None


@rule("AQ-HDR-2")
def test_the_server_takes_its_time() -> None:
    server = raw_server(Config())
    server.stream("V0204016b0176", 2, end=True)
    server.stream("V030004000000026869", 6)
    assert server.events(Opened) == [Opened(((b"k", b"v"),))]
    assert server.sent() == ["3: V01 FIN"]
    assert server.events(MessageBatch) == []
    server.engine.accept(((b"a", b"b"),), 0)
    assert server.sent() == ["7: V020401610162 FIN"]
    assert [batch.payload for batch in server.events(MessageBatch)] == [b"hi"]


@rule("AQ-HDR-4", "AQ-LOST-3")
def test_what_was_held_may_end_in_the_burst_that_lets_it_in() -> None:
    server = raw_server(Config(ack_mode=AckMode.ON_STORED))
    server.stream("V0200", 2)
    server.stream("V0300" + "04000002080000", 6)
    server.stream("V030007", 10)
    server.pump()
    server.engine.accept((), 1.0)
    assert [(e.channel, e.end) for e in server.events(Ended)] == [(0, End.CANCELLED), (8, End.LOST)]
    assert server.code is None


@rule("AQ-HDR-2", "AQ-HDR-3")
def test_headers_are_given_once_and_in_turn() -> None:
    server = raw_server(Config())
    with pytest.raises(NotAllowed):
        server.engine.accept((), 0)
    server.stream("V0200", 2)
    server.engine.accept((), 0)
    with pytest.raises(NotAllowed):
        server.engine.accept((), 0)
    client = Wire.client()
    with pytest.raises(NotAllowed):
        client.engine.accept((), 0)


@rule("AQ-HDR-3")
@pytest.mark.parametrize("second", ["same stream", "other stream"])
def test_headers_twice(second: str) -> None:
    server = raw_server()
    stream = server.stream("V0200", 2)
    if second == "same stream":
        server.stream("0200", stream)
    else:
        server.stream("V0200", 6)
    assert server.code == Code.HEADERS


@rule("AQ-HDR-4")
def test_held_sequences_are_released_in_order_of_arrival() -> None:
    server = raw_server()
    server.stream("V03000400000001", 10)
    server.stream("V0300040100000162", 6)
    server.datagram("V0300040000000175")
    server.stream("61", 10)
    assert server.all_events() == []
    server.stream("V0200", 2)
    batches = server.events(MessageBatch)
    assert [(batch.reliable, batch.first, batch.payload) for batch in batches] == [
        (True, 0, b"ab"),
        (False, 0, b"u"),
    ]


@rule("AQ-HDR-4", "AQ-SEQ-5")
def test_a_held_stream_that_ended_is_processed_to_its_end() -> None:
    server = raw_server()
    server.stream("V030006" + "00", 6, end=True)
    server.stream("V0200", 2)
    assert server.code is None
    assert not server.engine.half_open(0)
    server = raw_server()
    server.stream("V03000400", 6, end=True)
    server.stream("V0200", 2)
    assert server.code == Code.ENCODING


@rule("AQ-HDR-8")
def test_held_bytes_are_bounded() -> None:
    server = raw_server()
    size = Config().max_prehandshake_bytes
    server.stream("V0300", 6)
    server.stream("00" * (size // 2), 6)
    server.stream("V0300", 10)
    server.stream("00" * (size // 2 - 4), 10)
    assert server.code is None
    server.stream("00", 10)
    assert server.code == Code.RESOURCE_LIMIT


@rule("AQ-HDR-8")
def test_held_datagrams_over_their_limit_are_lost() -> None:
    server = raw_server(Config(auto_accept=True, max_prehandshake_datagrams=2))
    for number in range(4):
        server.datagram(f"V030004{number:02x}00000175")
    server.stream("V0200", 2)
    assert [batch.count for batch in server.events(MessageBatch)] == [2]
    assert server.engine.statistics.datagrams_dropped == 2


@rule("AQ-HDR-8")
def test_the_handshake_has_a_deadline() -> None:
    server = raw_server()
    server.stream("V", 2)
    server.advance(9.9)
    assert server.code is None
    server.advance(0.2)
    assert server.code == Code.HEADERS
    opened = Wire.server()
    opened.advance(60)
    assert opened.code is None


@rule("AQ-HDR-9")
def test_a_peer_without_datagrams() -> None:
    client = Wire.client()
    client.engine.handle(LinkReady(0), 0)
    assert client.events(DatagramsUnavailable) == [DatagramsUnavailable()]
    sent = client.engine.send(0, b"u", now=0, mode=Mode.UNRELIABLE)
    assert sent.reliable
    assert client.sent() == ["10: 0300040000000175 FIN"]
    strict = Wire.client(Config(require_datagrams=True))
    strict.engine.handle(LinkReady(0), 0)
    assert strict.code == Code.DATAGRAM


@rule("AQ-SEQ-8")
@pytest.mark.parametrize("stream_id", [0, 1, 4, 5, 3, 7])
def test_streams_that_carry_no_frames(stream_id: int) -> None:
    server = Wire.server()
    server.stream("0300", stream_id)
    assert server.code == Code.PROTOCOL


@rule("AQ-HDR-7")
def test_a_server_says_nothing_of_channels_before_the_headers() -> None:
    server = raw_server()
    server.stream("V0308", 6)
    server.advance(5)
    assert server.sent() == ["3: V01 FIN"]
