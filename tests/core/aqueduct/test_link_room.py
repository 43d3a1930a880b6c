"""What an engine does with a link that says how much it holds and what has left it."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Mode, Side
from aqueduct_core.aqueduct.events import Dropped, Ended, Numbered, Rerouted, Writable
from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.inputs import DatagramFate, DatagramOutcome, LinkLost, LinkReady, LinkRoom
from tests.support.rules import rule
from tests.support.wire import Wire

UNRELIABLE = Mode.UNRELIABLE
DATAGRAM = len(bytes.fromhex("03000400000064")) + 100
"""ROUTE_TO and MESSAGE with a payload of 100 bytes."""


def client(room: int = 2 * DATAGRAM, **limits: int) -> Wire:
    wire = Wire.client(Config(**limits))  # type: ignore[arg-type]
    wire.engine.handle(LinkRoom(room), 0)
    wire.engine.handle(LinkReady(1_000), 0)
    return wire.fresh()


def send(wire: Wire, count: int = 1, channel: int = 0) -> list[int | None]:
    return [
        wire.engine.send(channel, bytes(100), now=wire.now, mode=UNRELIABLE).number
        for _ in range(count)
    ]


def handed_over(wire: Wire) -> list[int]:
    """The tokens of the datagrams that the link got since the last call."""
    wire.pump()
    tokens = [action.token for action in wire.actions if isinstance(action, SendDatagram)]
    wire.actions.clear()
    return tokens


def left(wire: Wire, token: int) -> None:
    wire.engine.handle(DatagramOutcome(token, DatagramFate.LEFT), wire.now)


def control(wire: Wire) -> list[str]:
    """What went out on streams."""
    return [text for text in wire.sent() if not text.startswith("d")]


@rule("AQ-SEND-6")
def test_no_more_than_its_room_is_handed_over_and_the_rest_has_no_number() -> None:
    wire = client()
    assert send(wire, 5) == [0, 1, None, None, None]
    assert handed_over(wire) == [0, 1]
    assert wire.events(Numbered) == []
    left(wire, 0)
    assert handed_over(wire) == [2]
    assert wire.events(Numbered) == [Numbered(0, False, 2, 3)]
    left(wire, 2)
    assert handed_over(wire) == [3, 4]
    assert wire.events(Numbered) == [Numbered(0, False, 3, 5)]
    assert wire.engine.statistics.waiting == 0


def test_one_that_is_larger_than_the_room_goes_when_nothing_waits() -> None:
    wire = client(room=50)
    assert send(wire, 2) == [0, None]
    left(wire, 0)
    handed_over(wire)
    assert wire.events(Numbered) == [Numbered(0, False, 1, 2)]


def test_more_room_lets_more_go() -> None:
    wire = client()
    send(wire, 5)
    assert handed_over(wire) == [0, 1]
    wire.engine.handle(LinkRoom(4 * DATAGRAM), 0)
    assert handed_over(wire) == [2, 3]


@rule("AQ-SEND-6")
def test_a_message_is_declared_when_it_has_left() -> None:
    wire = client(room=3 * DATAGRAM)
    send(wire, 3)
    wire.advance(5.0)
    assert control(wire) == []
    left(wire, 1)
    wire.advance(0.1)
    assert control(wire) == ["10: 03000502"]
    wire.advance(5.0)
    assert control(wire) == []
    left(wire, 2)
    wire.advance(0.1)
    assert control(wire) == ["10: 0501"]


@rule("AQ-SEND-8", "AQ-FLOW-11")
def test_a_finish_waits_until_all_has_left() -> None:
    wire = client()
    send(wire, 3)
    wire.engine.finish(0, 0)
    wire.advance(5.0)
    left(wire, 0)
    wire.advance(5.0)
    assert control(wire) == ["10: 03000501"]
    left(wire, 2)
    assert control(wire) == ["10: 05020600 FIN"]
    wire.advance(5.0)
    assert control(wire) == []


@rule("AQ-SEND-14")
def test_a_oneshot_finishes_when_its_message_has_left() -> None:
    wire = client()
    (channel,) = wire.engine.send(0, b"", now=0, attach=[Attach(True, oneshot=True)]).attached
    wire.sent()
    send(wire, 1, channel)
    (token,) = handed_over(wire)
    assert control(wire) == []
    left(wire, token)
    assert control(wire) == ["14: 030405010600 FIN"]


@rule("AQ-SEND-10")
def test_what_leaves_after_a_cancel_is_not_declared() -> None:
    wire = client()
    send(wire, 3)
    wire.pump()
    wire.engine.cancel(0, 0)
    assert wire.events(Dropped) == [Dropped(0, 1)]
    wire.sent()
    left(wire, 1)
    wire.advance(5.0)
    assert wire.sent() == []


@rule("AQ-SEND-5")
def test_a_refused_datagram_goes_on_a_stream_and_the_next_ones_still_leave() -> None:
    wire = client()
    send(wire, 2)
    wire.pump()
    wire.engine.handle(DatagramOutcome(1, DatagramFate.REFUSED), 0)
    assert wire.events(Rerouted) == [Rerouted(0, 1, 0)]
    assert send(wire) == [None]  # it is the next in the line of those that leave
    left(wire, 0)
    wire.pump()
    assert wire.events(Numbered) == [Numbered(0, False, 1, 2)]
    left(wire, 2)
    wire.advance(0.1)
    wire.engine.finish(0, wire.now)
    assert control(wire)[-2:] == ["14: 03000502", "14: 0601 FIN"]


@rule("AQ-SEND-5")
def test_a_refused_datagram_that_counts_as_sent_holds_nothing_up() -> None:
    wire = client(room=3 * DATAGRAM)
    send(wire, 3)
    wire.pump()
    wire.engine.handle(
        DatagramOutcome(1, DatagramFate.REFUSED), 0
    )  # not the last one: it keeps its number
    assert wire.events(Rerouted) == []
    left(wire, 0)
    wire.advance(0.1)
    assert control(wire)[-1].endswith("0502")
    left(wire, 2)
    wire.engine.finish(0, wire.now)
    assert control(wire) == ["10: 05010600 FIN"]


@rule("AQ-FLOW-5")
def test_a_full_queue_drops_its_oldest_message() -> None:
    wire = client(send_queue_messages=2)
    assert send(wire, 6) == [0, 1, None, None, None, None]
    wire.pump()
    assert wire.events(Dropped) == [Dropped(0, 1), Dropped(0, 1)]
    left(wire, 1)
    wire.pump()
    assert wire.events(Numbered) == [Numbered(0, False, 2, 4)]


@rule("AQ-SEND-5", "AQ-SEND-8")
@pytest.mark.parametrize("tells", [True, False])
def test_a_refused_datagram_is_no_more_on_its_way(tells: bool) -> None:
    wire = client(room=DATAGRAM) if tells else Wire.client()
    wire.engine.handle(LinkReady(1_000), 0)
    send(wire)
    (token,) = handed_over(wire)
    wire.engine.handle(DatagramOutcome(token, DatagramFate.REFUSED), 0)
    wire.engine.finish(0, 0)
    assert any(text.endswith("0601 FIN") for text in control(wire))


def test_a_refusal_of_what_was_never_handed_over_changes_nothing() -> None:
    wire = client()
    wire.engine.handle(DatagramOutcome(0, DatagramFate.REFUSED), 0)
    assert send(wire, 3) == [0, 1, None]
    assert handed_over(wire) == [0, 1]
    assert wire.events(Rerouted) == []


def test_acked_datagrams_are_counted_over_all_answers() -> None:
    wire = client(room=20 * DATAGRAM)
    send(wire, 12)
    left(wire, handed_over(wire)[-1])
    wire.advance(1.0)
    wire.stream("0300" + "0903" + "020101" + "0904" + "00010204", end=True)
    wire.engine.cancel(0, wire.now)
    wire.stream("0300" + "0a", end=True)
    (ended,) = wire.events(Ended)
    assert ended.counts.acked == 2 + 1 + 2
    assert ended.counts.nacked == 7


def test_channels_share_the_room() -> None:
    wire = client()
    (other,) = wire.engine.send(0, b"", now=0, mode=UNRELIABLE, attach=[Attach(True)]).attached
    send(wire, 4)
    send(wire, 4, other)
    wire.pump()
    for token in range(1, 7):
        left(wire, token)
        wire.pump()
    numbered = wire.events(Numbered)
    counts = [sum(n.stop - n.first for n in numbered if n.channel == c) for c in (0, other)]
    assert min(counts) >= 2
    assert max(counts) - min(counts) <= 1


@rule("AQ-FLOW-5")
def test_an_application_that_would_rather_wait_asks() -> None:
    wire = client(send_queue_messages=2)
    send(wire, 3)
    assert not wire.engine.congested(0)
    send(wire, 1)
    assert wire.engine.congested(0)
    wire.pump()
    assert wire.events(Writable) == []
    left(wire, 0)
    wire.pump()
    assert wire.events(Writable) == [Writable(0)]
    assert not wire.engine.congested(0)
    assert wire.events(Dropped) == []


def test_a_bulk_goes_as_far_as_there_is_room() -> None:
    wire = client()
    payloads = [bytes(100)] * 5
    assert wire.engine.send_many(0, payloads, now=0, mode=UNRELIABLE) == (0, 2)
    assert wire.engine.congested(0)
    assert handed_over(wire) == [0, 1]
    left(wire, 0)
    wire.pump()
    assert wire.events(Writable) == [Writable(0)]
    assert wire.engine.send_many(0, payloads, now=0, mode=UNRELIABLE) == (2, 3)


def flow(wire: Wire, per_channel: str) -> None:
    """The server's headers with its buffers."""
    key = b"flow-control-5a3c19".hex()
    wire.stream(f"V02{22 + len(per_channel) // 2:02x}13{key}"
                f"{len(per_channel) // 2 + 1:02x}{per_channel}00" + "01", end=True)  # fmt: skip


@rule("AQ-FLOW-5")
@pytest.mark.parametrize("bulk", [True, False])
def test_who_would_rather_wait_waits_for_the_receiver_too(bulk: bool) -> None:
    """The link was what was missing; now it is the receiver: nothing is dropped for that."""
    config = Config(flow_per_channel=0, send_queue_messages=2)
    wire = Wire(AqueductEngine(Side.CLIENT, (), config))
    wire.pump()
    flow(wire, "fa02")  # 378 bytes: three messages
    wire.engine.handle(LinkRoom(2 * DATAGRAM), 0)
    wire.engine.handle(LinkReady(1_000), 0)
    wire.fresh()
    if bulk:
        assert wire.engine.send_many(0, [bytes(100)] * 5, now=0, mode=UNRELIABLE) == (0, 2)
    else:
        send(wire, 5)
        assert wire.events(Dropped) == [Dropped(0, 1)]
    assert wire.engine.congested(0)
    tokens = handed_over(wire)
    if bulk:
        left(wire, tokens[0])
        wire.pump()
        assert wire.events(Writable) == [Writable(0)]
        assert wire.engine.send_many(0, [bytes(100)] * 5, now=0, mode=UNRELIABLE) == (2, 3)
    left(wire, tokens[-1])
    wire.pump()
    assert wire.events(Writable) == [Writable(0)]
    if bulk:
        assert wire.engine.send_many(0, [bytes(100)], now=0, mode=UNRELIABLE) == (3, 3)
    else:  # one of those that waited had the last of the credit: its place is free
        send(wire, 1)
    assert wire.engine.congested(0)
    if not bulk:
        left(wire, handed_over(wire)[-1])
        assert wire.events(Writable) == []
    wire.stream("0300" + "0cbb02")  # 315 bytes: three messages
    assert wire.events(Writable) == [Writable(0)]
    assert not wire.engine.congested(0)
    assert wire.events(Dropped) == []


def test_a_lost_connection_holds_nothing() -> None:
    wire = client()
    send(wire, 4)
    wire.pump()
    wire.engine.handle(LinkLost(0, "idle timeout", by_peer=False), 0)
    (ended,) = wire.events(Ended)
    assert ended.counts.unreliable_sent == 2
    assert len(wire.engine._context.link) == 0
    assert wire.engine._context.link.size == 0
