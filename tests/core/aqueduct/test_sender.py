"""The sending half: what leaves, and what the peer's acks do."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.faults import (
    BadArgument,
    ChannelGone,
    ConnectionOver,
    NotAllowed,
    ResetCode,
    TooLarge,
    TooMany,
)
from aqueduct_core.engine.actions import ResetStream
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.inputs import LinkReady, StreamStopped
from aqueduct_core.engine.message_batch import Headers
from tests.support.rules import rule
from tests.support.wire import Wire


@rule("AQ-SEND-2")
def test_unordered_takes_a_stream_each() -> None:
    client = Wire.client()
    client.engine.send(0, b"a", now=0, mode=Mode.UNORDERED)
    client.engine.send(0, b"b", now=0, mode=Mode.UNORDERED)
    assert client.sent() == ["10: 0300040000000161 FIN", "14: 0300040100000162 FIN"]
    client.engine.finish(0, 0)
    assert client.sent() == ["18: 03000602 FIN"]


@rule("AQ-SEND-4")
def test_the_carrier_decides_the_number_space() -> None:
    client = Wire.client()
    client.engine.handle(LinkReady(50), 0)
    sent = [
        client.engine.send(0, payload, now=0, mode=Mode.UNRELIABLE)
        for payload in (b"s", b"B" * 60, b"s")
    ]
    assert [(s.number, s.reliable) for s in sent] == [(0, False), (0, True), (1, False)]


@rule("AQ-SEND-10", "AQ-ERR-2")
def test_cancel_resets_what_the_peer_has_not_acked() -> None:
    client = Wire.client()
    for _ in range(3):
        client.engine.send(0, b"", now=0, mode=Mode.UNORDERED)
    client.sent()
    client.stream("030008020101")
    client.engine.cancel(0, 0)
    client.pump()
    codes = [action.code for action in client.actions if isinstance(action, ResetStream)]
    assert codes == [ResetCode.CANCELLED] * 2
    assert client.sent() == ["22: 030007 FIN", "RESET 10", "RESET 18"]


@rule("AQ-SEND-10")
@pytest.mark.parametrize("acked", [0, 1, 2])
def test_cancel_ends_an_ordered_stream_that_carries_nothing_under_way(acked: int) -> None:
    client = Wire.client()
    client.engine.send_many(0, [b"", b""], now=0)
    client.sent()
    if acked:
        client.stream(f"0300080200{acked:02x}")
    client.engine.cancel(0, 0)
    client.pump()
    codes = [action.code for action in client.actions if isinstance(action, ResetStream)]
    assert codes == ([] if acked == 2 else [ResetCode.CANCELLED])
    ended = "10:  FIN" if acked == 2 else "RESET 10"
    assert client.sent() == sorted(["14: 030007 FIN", ended])


@rule("AQ-SEND-10")
def test_cancel_ends_a_stream_that_carries_declarations_alone() -> None:
    client = Wire.client()
    client.engine.send(0, b"u", now=0, mode=Mode.UNRELIABLE)
    client.engine.send(0, b"r" * 2000, now=0, mode=Mode.UNRELIABLE)
    client.advance(0.1)
    client.fresh()
    client.engine.cancel(0, client.now)
    assert client.sent() == ["14:  FIN", "18: 030007 FIN", "RESET 10"]


@rule("AQ-SEND-10")
def test_cancel_takes_back_the_declaration_that_was_due() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, mode=Mode.UNRELIABLE)
    client.engine.cancel(0, 0)
    client.sent()
    assert client.engine.wake_at is None
    client.advance(5)
    assert client.sent() == []


@rule("AQ-SEND-1")
def test_messages_leave_in_turn_also_where_one_is_the_last_of_its_channel() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.fresh()
    client.engine.send(0, b"a", now=0)
    client.engine.send(8, b"b", now=0)
    client.engine.finish(8, 0)
    assert client.sent() == ["10: 040100000161", "14: 0308040000000162" + "0601 FIN"]


@rule("AQ-SEND-8")
def test_messages_do_not_hold_a_declaration() -> None:
    client = Wire.client()
    client.engine.send(0, b"u", now=0, mode=Mode.UNRELIABLE)
    client.advance(0.1)
    client.fresh()
    client.engine.send(0, b"r" * 2000, now=client.now, mode=Mode.UNRELIABLE)
    client.engine.finish(0, client.now)
    assert [line.split(":")[0] for line in client.sent()] == ["10", "14"]


@rule("AQ-LIFE-3")
def test_messages_do_not_hold_a_route_back() -> None:
    server = Wire.server()
    server.stream("030004000002020000")
    server.fresh()
    server.engine.send(2, b"a", now=0)
    server.stream("0300040100020a0000")
    assert server.sent() == ["11: 030a", "7: 0400000001" + "61"]


@rule("AQ-SEND-13")
def test_the_mode_is_fixed_by_the_first_send() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, mode=Mode.UNORDERED)
    for mode in (Mode.ORDERED, Mode.UNRELIABLE):
        with pytest.raises(NotAllowed):
            client.engine.send(0, b"", now=0, mode=mode)
        with pytest.raises(NotAllowed):
            client.engine.send_many(0, [b""], now=0, mode=mode)


@rule("AQ-SEND-14")
@pytest.mark.parametrize("mode", list(Mode))
def test_a_oneshot_sender_finishes_by_itself(mode: Mode) -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True, oneshot=True)])
    client.sent()
    client.engine.send(4, b"r", now=0, mode=mode)
    sent = client.sent()
    if mode is Mode.ORDERED:
        assert sent == ["14: 03040400000001720601 FIN"]
    elif mode is Mode.UNORDERED:
        assert sent == ["18: 03040601 FIN", "14: 0304040000000172 FIN"]
    else:
        assert sent == ["14: 030405010600 FIN", "d: 0304040000000172"]
    assert not client.engine.can_send(4)


@rule("AQ-SEND-14")
def test_two_messages_at_once_on_a_oneshot_channel() -> None:
    client = Wire.client()
    client.engine.send(0, b"", now=0, attach=[Attach(True, oneshot=True)])
    with pytest.raises(NotAllowed):
        client.engine.send_many(4, [b"a", b"b"], now=0)
    assert client.engine.can_send(4)


@rule("AQ-SEND-15")
def test_a_stopped_stream_is_reset_and_written_no_more() -> None:
    client = Wire.client()
    client.engine.send(0, b"a", now=0)
    client.sent()
    client.engine.handle(StreamStopped(10, 0), 0)
    client.engine.send(0, b"b", now=0)
    assert client.sent() == ["RESET 10"]
    for other in (3, 14, 1000):
        client.engine.handle(StreamStopped(other, 0), 0)
    assert client.sent() == []
    assert client.code is None


@rule("AQ-CHANID-2", "AQ-CHANID-4")
def test_identifiers_of_attachments() -> None:
    client = Wire.client()
    kinds = [Attach(s, o) for s in (True, False) for o in (False, True) for _ in range(2)]
    sent = client.engine.send(0, b"", now=0, attach=kinds)
    assert sent.attached == (8, 16, 4, 12, 2, 10, 6, 14)
    server = Wire.server()
    server.stream("030004000002020000")
    server.pump()
    sent = server.engine.send(2, b"", now=0, attach=kinds)
    assert sent.attached == (3, 11, 7, 15, 1, 9, 5, 13)


@rule("AQ-CHANID-4")
def test_a_send_that_fails_takes_no_index() -> None:
    client = Wire.client(Config(max_payload_bytes=10))
    with pytest.raises(TooLarge):
        client.engine.send(0, b"x" * 11, now=0, attach=[Attach(True)] * 3)
    with pytest.raises(BadArgument):
        client.engine.send(0, b"", now=0, attach=[Attach(True, headers=((b"", b""),))])
    assert client.sent() == []
    assert client.engine.send(0, b"", now=0, attach=[Attach(True)]).attached == (8,)


@rule("AQ-HDRDATA-3")
@pytest.mark.parametrize("key", [b"", "é".encode()])
def test_our_header_keys_are_plain(key: bytes) -> None:
    client = Wire.client()
    with pytest.raises(BadArgument):
        client.engine.send(0, b"", now=0, headers=((key, b""),))


def test_what_is_too_large() -> None:
    client = Wire.client()
    with pytest.raises(TooLarge):
        client.engine.send(0, b"", now=0, headers=((b"k", b"v" * 64_000),))
    with pytest.raises(TooLarge):
        client.engine.send(0, b"", now=0, headers=((b"k", b""),) * 257)
    with pytest.raises(TooLarge):
        client.engine.send(0, b"", now=0, attach=[Attach(True)] * 1025)
    with pytest.raises(TooLarge):
        client.engine.send_many(0, [b"x" * 16_000_001], now=0)
    with pytest.raises(TooLarge):
        client.engine.send_many(0, [b"x" * 1100], now=0, mode=Mode.UNRELIABLE)
    assert client.sent() == []


def test_too_many_attachments_under_way() -> None:
    client = Wire.client(Config(max_unacked_attachment_messages=2))
    for _ in range(2):
        client.engine.send(0, b"", now=0, attach=[Attach(True)])
    with pytest.raises(TooMany, match="2 messages with attachments"):
        client.engine.send(0, b"", now=0, attach=[Attach(True)])
    client.engine.send(0, b"", now=0)
    client.stream("030008020001")
    client.engine.send(0, b"", now=0, attach=[Attach(True)])
    links = Wire.client(Config(max_links=1))
    with pytest.raises(TooMany):
        links.engine.send(0, b"", now=0, attach=[Attach(True)] * 2)
    channels = Wire.client(Config(max_channels=2))
    channels.engine.send(0, b"", now=0, attach=[Attach(True)])
    with pytest.raises(TooMany):
        channels.engine.send(0, b"", now=0, attach=[Attach(True)])


def test_halves_that_are_not_here() -> None:
    client = Wire.client()
    for act in (
        lambda: client.engine.send(8, b"", now=0),
        lambda: client.engine.finish(8, 0),
        lambda: client.engine.cancel(8, 0),
        lambda: client.engine.close(0, 0),
    ):
        with pytest.raises(ChannelGone):
            act()
    client.engine.shutdown(0, "", 0)
    with pytest.raises(ConnectionOver):
        client.engine.send(0, b"", now=0)


def test_send_many_in_each_mode() -> None:
    client = Wire.client()
    assert client.engine.send_many(0, [b"a", b"bc"], now=0) == (0, 2)
    assert client.engine.send_many(0, [], now=0) == (2, 2)
    assert client.sent() == ["10: 03000400000001610401000002" + "6263"]
    client = Wire.client()
    assert client.engine.send_many(0, [b"a", b"b"], now=0, mode=Mode.UNORDERED) == (0, 2)
    assert client.sent() == ["10: 0300040000000161 FIN", "14: 0300040100000162 FIN"]
    client = Wire.client()
    assert client.engine.send_many(0, [b"a", b"b"], now=0, mode=Mode.UNRELIABLE) == (0, 2)
    assert client.sent() == ["d: 0300040000000161", "d: 0300040100000162"]
    client.engine.handle(LinkReady(0), 0)
    assert client.engine.send_many(0, [b"c"], now=0, mode=Mode.UNRELIABLE) == (0, 1)


@rule("AQ-HDRDATA-1", "AQ-SEND-1")
@pytest.mark.parametrize("mode", list(Mode))
def test_messages_with_headers_in_a_row_are_the_same_as_one_by_one(mode: Mode) -> None:
    headers: list[Headers] = [((b"k", b"v"),), (), ((b"k", b""), (b"k", b"w"))]
    payloads = [b"a", b"bc", b""]
    client, other = Wire.client(), Wire.client()
    column = HeaderColumn.of(headers)
    assert client.engine.send_many(0, payloads, now=0, mode=mode, headers=column) == (0, 3)
    for payload, pairs in zip(payloads, headers, strict=True):
        other.engine.send(0, payload, now=0, mode=mode, headers=pairs)
    assert client.sent() == other.sent()


@pytest.mark.parametrize("mode", list(Mode))
def test_headers_over_a_limit_are_refused_before_anything_is_sent(mode: Mode) -> None:
    client = Wire.client()
    config = client.engine.config
    for pairs, error in (
        (((b"", b"v"),), BadArgument),
        (((b"k", b"v"),) * (config.max_header_pairs + 1), TooLarge),
        (((b"k", b"v" * config.max_headers_bytes),), TooLarge),
    ):
        column = HeaderColumn.of([(), pairs])
        with pytest.raises(error):
            client.engine.send_many(0, [b"a", b"b"], now=0, mode=mode, headers=column)
    with pytest.raises(BadArgument):
        client.engine.send_many(0, [b"a"], now=0, mode=mode, headers=HeaderColumn.of([(), ()]))
    assert client.sent() == []


def test_headers_count_for_whether_a_datagram_holds_a_message() -> None:
    client = Wire.client()
    most = client.engine.datagram_room(0, 1)
    for length in (1, 100, 130):
        column = HeaderColumn.of([((b"k", b"v" * length),)])
        fits = bytes(most - column.longest_added)
        with pytest.raises(TooLarge):
            client.engine.send_many(0, [fits + b"x"], now=0, mode=Mode.UNRELIABLE, headers=column)
        before = client.engine.statistics.messages_sent
        client.engine.send_many(0, [fits], now=0, mode=Mode.UNRELIABLE, headers=column)
        assert client.engine.statistics.messages_sent == before + 1
        assert client.sent()[0].startswith("d: ")


def test_credit_counts_headers() -> None:
    """What has credit leaves, to the byte, as if each message was sent by itself."""
    pairs = ((b"k", b"v" * 40),)
    payloads = [b"x" * 10] * 20
    for credit in range(1, 1300, 29):
        config = Config(flow_per_channel=10, initial_burst=credit)
        client, other = (Wire(AqueductEngine(Side.CLIENT, (), config)) for _ in range(2))
        column = HeaderColumn.of([pairs] * 20)
        first, stop = client.engine.send_many(0, payloads, now=0, headers=column)
        count = 0
        for payload in payloads:
            count += other.engine.send(0, payload, now=0, headers=pairs).number is not None
        assert stop - first == count


@pytest.mark.parametrize("mode", list(Mode))
def test_headers_leave_with_their_message(mode: Mode) -> None:
    client = Wire.client()
    client.engine.send(0, b"x", now=0, mode=mode, headers=((b"k", b"v"),))
    (sent,) = client.sent()
    assert "04016b0176" in sent
