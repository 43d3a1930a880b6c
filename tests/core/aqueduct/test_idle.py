"""Channels on which nothing happens (H27, H28)."""

from __future__ import annotations

from aqueduct_core.aqueduct.engine import AqueductEngine, Attach, Config, Side
from aqueduct_core.aqueduct.events import Ended, Idle
from tests.support.wire import Wire


def test_a_channel_on_which_nothing_happens_is_told_once() -> None:
    wire = Wire.server(Config(auto_accept=True, channel_idle_timeout=5.0))
    wire.stream("0300" + "0601")  # a finish whose message never comes
    wire.advance(4.9)
    assert wire.events(Idle) == []
    wire.advance(0.2)
    assert wire.events(Idle) == [Idle(0)]
    wire.advance(60)
    assert wire.events(Idle) == []
    assert wire.engine.half_open(0)  # it is for the application to judge
    wire.stream("0300" + "0400000000")
    assert [event.channel for event in wire.events(Ended)] == [0]
    wire.advance(60)
    assert wire.events(Idle) == []
    assert wire.engine.wake_at is None
    assert wire.code is None


def test_whatever_happens_on_a_channel_begins_the_time_anew() -> None:
    wire = Wire(AqueductEngine(Side.CLIENT, (), Config(channel_idle_timeout=5.0)))
    wire.pump()
    wire.stream("V020001", end=True)
    wire.fresh()
    for _ in range(5):
        wire.advance(3)
        wire.engine.send(0, b"x", now=wire.now)
    assert wire.events(Idle) == []
    (child,) = wire.engine.send(0, b"", now=wire.now, attach=[Attach(False)]).attached
    wire.advance(5)
    assert {event.channel for event in wire.events(Idle)} == {0, child}
    wire.engine.finish(0, wire.now)  # and the peer never closes
    wire.advance(5)
    assert wire.events(Idle) == [Idle(0)]
    off = Wire.client()
    off.engine.send(0, b"x", now=0)
    off.advance(1000)
    assert off.events(Idle) == []


def test_channels_that_come_in_a_message_are_watched_from_then_on() -> None:
    server = Wire.server(Config(auto_accept=True, channel_idle_timeout=5.0))
    server.advance(3)
    server.stream("03000400000408000200" + "00")
    server.advance(4.9)
    assert server.events(Idle) == []
    server.advance(0.1)
    assert {event.channel for event in server.events(Idle)} == {0, 8, 2}


def test_channels_that_nobody_knows_are_not_told() -> None:
    server = Wire.server(Config(auto_accept=True, channel_idle_timeout=5.0))
    server.stream("0308")
    server.stream("0310" + "0400000000")
    server.advance(60)
    assert server.events(Idle) == [Idle(0)]
    assert server.code is None
    assert server.engine.wake_at is None


def test_a_question_is_nothing_that_happens() -> None:
    client = Wire.client(Config(channel_idle_timeout=5.0))
    client.advance(3)
    assert client.engine.datagram_room(0) > 0
    assert not client.engine.congested(0)
    client.advance(2)
    assert client.events(Idle) == [Idle(0)]


def test_a_watched_channel_wakes_the_engine_when_its_time_is_over_and_not_before() -> None:
    client = Wire.client(Config(channel_idle_timeout=5.0))
    assert client.engine.wake_at == 5.0
    client.advance(3)
    client.engine.send(0, b"x", now=3)
    client.engine.tick(5)
    assert client.engine.wake_at == 8.0
    client.engine.tick(8)
    assert client.events(Idle) == [Idle(0)]
    assert client.engine.wake_at is None


def test_a_channel_that_is_gone_is_watched_no_more() -> None:
    client = Wire.client(Config(channel_idle_timeout=5.0))
    client.engine.send(0, b"", now=0, attach=[Attach(False)] * 2)
    client.stream("030207")
    client.advance(2)
    assert client.engine.wake_at == 5.0
    client.stream("03000a")  # channel 10 is lost with its carrier
    client.advance(1)
    assert client.engine.open_channels == 0
    assert client.engine.wake_at is None
