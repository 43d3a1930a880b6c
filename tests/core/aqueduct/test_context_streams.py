"""The last streams are for control (H12); delays follow the round-trip time (B35)."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.config import Config, Mode
from aqueduct_core.aqueduct.engine import Attach
from aqueduct_core.aqueduct.events import Numbered, Writable
from aqueduct_core.engine.inputs import LinkRtt, StreamLimit
from tests.support.rules import rule
from tests.support.wire import Wire


def opened(wire: Wire) -> int:
    """Streams that the client has opened since the last call."""
    return len({text.split(":")[0] for text in wire.sent() if text[0].isdigit()})


@rule("AQ-FLOW-11")
def test_messages_leave_the_last_streams_to_control_frames() -> None:
    """Two streams are used by the handshake (client). 20 allowed, 4 reserved: 14 messages."""
    wire = Wire.client(Config(reserved_control_streams=4))
    wire.engine.handle(StreamLimit(20), 0)
    (child,) = wire.engine.send(0, b"", now=0, attach=[Attach(True)], mode=Mode.UNORDERED).attached
    numbers = [wire.engine.send(0, b"x", now=0, mode=Mode.UNORDERED).number for _ in range(15)]
    assert numbers == [*range(1, 14), None, None]
    assert wire.engine.send(child, b"ordered", now=0).number is None
    assert opened(wire) == 14
    wire.engine.cancel(child, 0)  # takes a stream of those that were kept
    wire.engine.finish(0, 0)  # waits for its messages
    assert wire.sent() == ["66: 030807 FIN"]
    wire.engine.handle(StreamLimit(22), 0)
    assert wire.events(Numbered) == [Numbered(0, True, 14, 15)]
    wire.engine.handle(StreamLimit(40), 0)
    assert wire.events(Numbered) == [Numbered(0, True, 15, 16)]
    assert any(text.endswith("0610 FIN") for text in wire.sent())


def test_bulk_sends_and_fallback_messages_need_streams_too() -> None:
    wire = Wire.client(Config(reserved_control_streams=1, max_datagram_size=100))
    wire.engine.handle(StreamLimit(5), 0)
    assert wire.engine.send_many(0, [b"x"] * 5, now=0, mode=Mode.UNORDERED) == (0, 2)
    wire.engine.handle(StreamLimit(8), 0)
    assert wire.events(Writable) == [Writable(0)]
    wire = Wire.client(Config(reserved_control_streams=1, max_datagram_size=100))
    wire.engine.handle(StreamLimit(4), 0)
    sent = [wire.engine.send(0, b"x" * n, now=0, mode=Mode.UNRELIABLE) for n in (200, 1, 200, 1)]
    assert [(each.number, each.reliable) for each in sent[:2]] == [(0, True), (0, False)]
    assert [each.number for each in sent[2:]] == [None, None]
    assert wire.engine.send_many(0, [b"x"] * 2, now=0, mode=Mode.UNRELIABLE) == (1, 1)
    wire.engine.handle(StreamLimit(10), 0)
    assert wire.events(Numbered) == [Numbered(0, True, 1, 2), Numbered(0, False, 1, 2)]


@rule("AQ-SEND-14", "AQ-FLOW-11")
@pytest.mark.parametrize("mode", [Mode.ORDERED, Mode.UNORDERED])
def test_a_oneshot_that_finds_no_stream_is_still_open(mode: Mode) -> None:
    wire = Wire.client(Config(reserved_control_streams=0))
    wire.engine.handle(StreamLimit(3), 0)
    (child,) = wire.engine.send(0, b"", now=0, attach=[Attach(True, oneshot=True)]).attached
    wire.fresh()
    assert wire.engine.send_many(child, [b"a"], now=0, mode=mode) == (0, 0)
    assert wire.sent() == []
    assert wire.engine.can_send(child)
    wire.engine.handle(StreamLimit(9), 0)
    assert wire.events(Writable) == [Writable(child)]
    assert wire.engine.send_many(child, [b"a"], now=0, mode=mode) == (0, 1)
    assert not wire.engine.can_send(child)


def test_a_peer_that_allows_few_streams_has_few_of_them_reserved() -> None:
    wire = Wire.client()
    wire.engine.handle(StreamLimit(3), 0)
    assert wire.engine.send(0, b"x", now=0).number == 0
    assert wire.engine.send_many(0, [b"x"] * 3, now=0) == (1, 4)


@rule("AQ-SEND-6")
@pytest.mark.parametrize(("rtt", "delay"), [(1.0, 0.1), (0.06, 0.03), (0.001, 0.01)])
def test_datagram_messages_are_declared_after_half_a_round_trip(rtt: float, delay: float) -> None:
    wire = Wire.client()
    wire.engine.handle(LinkRtt(rtt), 0)
    wire.engine.send(0, b"x", now=0, mode=Mode.UNRELIABLE)
    assert wire.engine.wake_at == pytest.approx(delay)
    wire.sent()
    wire.advance(delay + 1e-9)
    assert wire.sent() == ["10: 03000501"]


@rule("AQ-ACK-6")
@pytest.mark.parametrize(
    ("by_rtt", "rtt", "deadline"),
    [(False, 0.2, 1.0), (True, 0.2, 0.4), (True, 0.001, 0.1), (True, 5.0, 1.0)],
)
def test_the_receipt_deadline_may_follow_the_round_trip(
    by_rtt: bool, rtt: float, deadline: float
) -> None:
    wire = Wire.server(Config(auto_accept=True, receipt_deadline_by_rtt=by_rtt))
    wire.engine.handle(LinkRtt(rtt), 0)
    wire.stream("03000501")
    wire.advance(deadline - 1e-6)
    assert wire.sent() == []
    wire.advance(2e-6)
    assert wire.sent() == ["7: 0300" + "09020001"]
