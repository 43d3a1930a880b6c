"""From the application's messages to the wire: limits, what waits and is told, what is refused."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.egress import Sent
from aqueduct_core.aqueduct.engine import Attach, Side
from aqueduct_core.aqueduct.events import Ended, Numbered, Rerouted, Writable
from aqueduct_core.aqueduct.faults import BadArgument, TooLarge
from aqueduct_core.aqueduct.flow import FLOW_CONTROL
from aqueduct_core.engine.actions import SendDatagram, WriteStream
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramLimit,
    DatagramOutcome,
    EarlyRejected,
    LinkReady,
    LinkRoom,
    LinkRtt,
    StreamLimit,
)
from tests.core.aqueduct.test_flow import client
from tests.support.rules import rule
from tests.support.wire import Wire

HI = 7
"""Bytes of a MESSAGE with a payload of two."""
UNRELIABLE = Mode.UNRELIABLE


def tokens(wire: Wire) -> list[int]:
    """Of the datagrams that left since the last call."""
    return [action.token for action in wire.engine.actions() if isinstance(action, SendDatagram)]


# --- limits -----------------------------------------------------------------------------


def test_a_message_may_be_as_large_as_the_limits_say() -> None:
    wire = Wire.client(
        Config(max_payload_bytes=10, max_headers_bytes=8, max_header_pairs=2, max_attachments=3)
    )
    send = wire.engine.send
    pair = (b"k", b"v")
    send(0, bytes(10), now=0, headers=(pair, pair), attach=[Attach(True)] * 3)
    send(0, b"", now=0, attach=[Attach(True, headers=(pair, pair))])
    wire.engine.send_many(0, [bytes(10)] * 3, now=0)
    sent = wire.engine.statistics.messages_sent
    with pytest.raises(TooLarge, match="payload of 11 bytes, at most 10"):
        send(0, bytes(11), now=0)
    with pytest.raises(TooLarge, match="payload of 11 bytes, at most 10"):
        wire.engine.send_many(0, [b"", bytes(11), b""], now=0)
    with pytest.raises(TooLarge, match="1 headers of 9 bytes"):
        send(0, b"", now=0, headers=((b"key", b"four"),))
    with pytest.raises(TooLarge, match="3 headers of 9 bytes"):
        send(0, b"", now=0, headers=((b"k", b""),) * 3)
    with pytest.raises(TooLarge, match="4 attachments"):
        send(0, b"", now=0, attach=[Attach(True)] * 4)
    with pytest.raises(TooLarge, match="1 headers of 9 bytes"):
        send(0, b"", now=0, attach=[Attach(True, headers=((b"key", b"four"),))])
    assert wire.engine.statistics.messages_sent == sent


@rule("AQ-FLOW-10")
def test_a_buffer_of_a_receiver_that_nobody_could_read_is_refused_with_its_reason() -> None:
    wire = Wire.client()
    with pytest.raises(BadArgument, match="flow") as caught:
        wire.engine.send(0, b"", now=0, attach=[Attach(False, headers=((FLOW_CONTROL, b"\x80"),))])
    assert str(caught.value) != "None"
    assert wire.engine.open_channels == 1


@rule("AQ-SEND-3")
def test_a_bulk_of_datagrams_has_the_room_that_was_told_for_each() -> None:
    wire = Wire.client()
    wire.engine.handle(LinkReady(1_000), 0)
    room = wire.engine.datagram_room(0, 3)
    assert wire.engine.send_many(0, [bytes(room)] * 3, now=0, mode=UNRELIABLE) == (0, 3)
    with pytest.raises(TooLarge, match=f"{room + 1} bytes and its head"):
        wire.engine.send_many(0, [b"", bytes(room + 1)], now=0, mode=UNRELIABLE)
    datagrams = [action for action in wire.engine.actions() if isinstance(action, SendDatagram)]
    assert len(datagrams) == 3
    wire.engine.handle(LinkReady(2), 0)
    assert wire.engine.send_many(0, [], now=0, mode=UNRELIABLE) == (3, 3)


@rule("AQ-SEND-3")
def test_the_room_of_datagrams_follows_the_path() -> None:
    wire = Wire.client()
    wire.engine.handle(LinkReady(1_000), 0)
    before = wire.engine.datagram_room(0, 1)
    wire.engine.handle(DatagramLimit(8_000), 0)
    assert wire.engine.datagram_room(0, 1) >= before + 6_990
    assert wire.engine.send_many(0, [bytes(7_000)], now=0, mode=UNRELIABLE) == (0, 1)
    wire.engine.handle(DatagramLimit(1_000), 0)
    (action,) = [each for each in wire.engine.actions() if isinstance(each, SendDatagram)]
    wire.engine.handle(DatagramOutcome(action.token, DatagramFate.REFUSED), 0)
    written = [each for each in wire.engine.actions() if isinstance(each, WriteStream)]
    assert sum(len(each.data) for each in written) > 7_000  # it goes by a stream now
    with pytest.raises(TooLarge):
        wire.engine.send_many(0, [bytes(7_000)], now=0, mode=UNRELIABLE)


@pytest.mark.parametrize("mode", [Mode.ORDERED, Mode.UNORDERED])
def test_what_brings_channels_is_urgent(mode: Mode) -> None:
    """What comes on them would wait for it at the peer, and keep its credit."""
    wire = Wire.client()
    wire.engine.handle(LinkReady(1_000), 0)

    def urgent() -> list[bool]:
        actions = wire.engine.actions()
        return [each.urgent for each in actions if isinstance(each, WriteStream) and each.data]

    wire.engine.send(0, b"opens", now=0, mode=mode)
    urgent()
    wire.engine.send(0, b"", now=0, mode=mode)
    assert urgent() == [False]
    (channel,) = wire.engine.send(0, b"", now=0, mode=mode, attach=[Attach(True)]).attached
    wire.engine.send(channel, b"on it", now=0)
    assert urgent() == [True, False]


# --- what waits, and what is told of it -------------------------------------------------


def test_messages_count_as_sent_when_they_leave() -> None:
    wire = client(2 * HI)
    wire.engine.send(0, b"hi", now=0)
    wire.engine.send(0, b"", now=0, attach=[Attach(True)])
    assert wire.engine.send(0, b"hi", now=0).number is None
    assert wire.engine.statistics.messages_sent == 2
    credits = wire.stream("0300" + "0c0e")
    wire.pump()
    assert wire.engine.statistics.messages_sent == 3
    assert wire.engine.send_many(0, [b"hi"] * 2, now=0) == (3, 4)
    wire.stream("0c0e", credits)
    assert wire.engine.send_many(0, [b"hi"] * 2, now=0) == (4, 6)
    assert wire.engine.statistics.messages_sent == 6


def test_a_message_that_waits_says_which_numbers_it_will_get() -> None:
    wire = client(HI)
    other = wire.engine.send(0, b"", now=0, attach=[Attach(True)]).attached[0]
    assert wire.engine.send(0, b"hi", now=0) == Sent(None, True, ())
    assert wire.engine.send(other, b"hi", now=0, mode=UNRELIABLE).number == 0
    assert wire.engine.send(other, b"hi", now=0, mode=UNRELIABLE) == Sent(None, False, ())


@rule("AQ-FLOW-4")
@pytest.mark.parametrize("attach", [[], [Attach(True)]])
def test_what_waits_for_the_total_is_not_overtaken(attach: list[Attach]) -> None:
    wire = client(0, 20)
    a, b = wire.engine.send(0, b"", now=0, attach=[Attach(True), Attach(True)]).attached
    assert wire.engine.send(a, b"x" * 100, now=0, attach=attach).number is None
    wire.pump()
    assert wire.engine.send(b, b"hi", now=0).number is None


@rule("AQ-FLOW-5")
def test_the_rest_of_a_bulk_may_be_tried_when_there_is_credit_and_not_before() -> None:
    wire = client(2 * HI)
    credits = wire.stream("0300")
    for first in (0, 2):
        assert wire.engine.send_many(0, [b"hi"] * 3, now=0) == (first, first + 2)
        wire.engine.handle(StreamLimit(100 + first), 0)  # something else happens
        assert wire.events(Writable) == []
        wire.stream("0c0e", credits)
        assert wire.events(Writable) == [Writable(0)]


@rule("AQ-FLOW-5")
def test_of_a_bulk_that_went_there_is_no_more_to_tell() -> None:
    wire = client(2 * HI)
    assert wire.engine.send_many(0, [b"hi"] * 2, now=0) == (0, 2)
    wire.stream("0300" + "0c0e")
    assert wire.events(Writable) == []


@rule("AQ-FLOW-5")
def test_a_bulk_of_unreliable_messages_waits_for_the_total_too() -> None:
    """The link was what was missing; by the time that it takes more, others have the credit."""
    wire = client(0, 400)
    (channel,) = wire.engine.send(0, b"", now=0, attach=[Attach(True)]).attached
    wire.engine.handle(LinkRoom(220), 0)
    wire.engine.handle(LinkReady(1_000), 0)
    wire.fresh()
    assert wire.engine.send_many(channel, [bytes(100)] * 5, now=0, mode=UNRELIABLE) == (0, 2)
    assert wire.engine.congested(channel)
    rest = 400 - wire.engine.statistics.outstanding
    assert wire.engine.send(0, bytes(rest - 6), now=0).number is not None
    assert wire.engine.statistics.outstanding == 400
    wire.engine.handle(DatagramOutcome(tokens(wire)[-1], DatagramFate.LEFT), 0)
    assert wire.events(Writable) == []
    assert wire.engine.congested(channel)
    wire.stream("0300" + "0c0e")
    assert wire.events(Writable) == [Writable(channel)]
    assert not wire.engine.congested(channel)


def test_a_message_that_waits_with_channels_waits_for_room_for_them_too() -> None:
    wire = client(HI, max_channels=2)
    wire.engine.send(0, b"hi", now=0)
    for _ in range(2):
        assert wire.engine.send(0, b"", now=0, attach=[Attach(True)]).number is None
    credits = wire.stream("0300" + "0c07")
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2, (8,))]
    wire.stream("0c07", credits)
    assert wire.events(Numbered) == []
    wire.stream("03080a")  # the peer closes the first of them
    assert [ended.channel for ended in wire.events(Ended)] == [8]
    assert wire.events(Numbered) == [Numbered(0, True, 2, 3, (16,))]


# --- what the link tells ----------------------------------------------------------------


def unreliable(room: int | None = None) -> Wire:
    wire = Wire.client()
    if room is not None:
        wire.engine.handle(LinkRoom(room), 0)
    wire.engine.handle(LinkReady(1_000), 0)
    return wire.fresh()


def send(wire: Wire) -> int:
    """The token of a datagram that goes now."""
    assert wire.engine.send(0, b"hi", now=wire.now, mode=UNRELIABLE).number is not None
    (token,) = tokens(wire)
    return token


def test_what_became_of_a_datagram_on_the_link_is_for_its_receiver_to_say() -> None:
    wire = unreliable()
    token = send(wire)
    for input in (
        DatagramOutcome(token, DatagramFate.ACKED),
        DatagramOutcome(token, DatagramFate.LOST),
        EarlyRejected(8),
        LinkRtt(0.1),
    ):
        wire.engine.handle(input, wire.now)
    assert wire.all_events() == []
    wire.advance(1.0)
    assert wire.sent() == ["10: 03000501"]


@rule("AQ-SEND-5", "AQ-SEND-6")
def test_a_refused_datagram_that_is_the_next_to_leave_and_not_the_last_is_declared() -> None:
    wire = unreliable(room=1_000)
    wire.engine.send_many(0, [b"hi"] * 2, now=0, mode=UNRELIABLE)
    first, second = tokens(wire)
    wire.engine.handle(DatagramOutcome(first, DatagramFate.REFUSED), 0)
    wire.advance(1.0)
    assert wire.sent() == ["10: 03000501"]
    wire.engine.handle(DatagramOutcome(second, DatagramFate.LEFT), wire.now)
    wire.advance(1.0)
    assert wire.sent() == ["10: 0501"]


@rule("AQ-SEND-5", "AQ-SEND-8")
def test_a_refusal_that_comes_late_counts_as_sent() -> None:
    wire = unreliable(room=1_000)
    first, second = send(wire), send(wire)
    wire.engine.handle(DatagramOutcome(first, DatagramFate.REFUSED), 0)
    assert wire.events(Rerouted) == []
    wire.engine.handle(DatagramOutcome(second, DatagramFate.LEFT), 0)
    wire.engine.finish(0, 0)
    assert wire.sent() == ["10: 030005020600 FIN"]


@pytest.mark.parametrize("room", [None, 1_000])
def test_a_refusal_for_a_channel_that_has_ended_changes_nothing(room: int | None) -> None:
    wire = unreliable(room)
    token = send(wire)
    wire.engine.cancel(0, 0)
    wire.stream("03000a")
    assert not wire.engine.half_open(0)
    wire.all_events()
    wire.sent()
    wire.engine.handle(DatagramOutcome(token, DatagramFate.REFUSED), 0)
    assert wire.all_events() == []
    assert wire.sent() == []
    assert wire.engine.closed is None
    assert wire.engine.side is Side.CLIENT
