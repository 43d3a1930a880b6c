"""However much comes at once, a connection takes in so much of it by turns."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.engine import AqueductEngine, Side
from aqueduct_core.aqueduct.events import Closed, Event
from aqueduct_core.aqueduct.ingress import ARRIVALS, CHANNEL, SOON
from aqueduct_core.aqueduct.ingress import _work as work_of
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.aqueduct.wire.frames import (
    AckNackUnreliable,
    AckReliable,
    Block,
    CloseReceiver,
    Frame,
    MessageFrame,
    RouteTo,
)
from aqueduct_core.engine.actions import Consumed
from aqueduct_core.engine.inputs import StreamBytes, StreamReset
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from tests.support.turns import proceed
from tests.support.wire import Wire

WORK = 100


def server(**limits: int) -> AqueductEngine:
    config = Config(auto_accept=True, work_per_turn=WORK, **limits)
    return Wire.server(config).engine


def route(channel: int = 0) -> bytes:
    return codec.encode_route_to(channel)


def message(number: int, attached: int = 0) -> bytes:
    """With so many channels; such a one is in no block."""
    channels = tuple(Attachment(8 * (1 + number * attached + n), ()) for n in range(attached))
    return codec.encode_message(number, ((b"k", b"v"),), channels, b"x")


def batches(events: list[Event]) -> int:
    return sum(item.count for item in events if isinstance(item, MessageBatch))


def each_turn(engine: AqueductEngine, now: float = 0.0) -> list[list[Event]]:
    """What each turn tells, until nothing waits."""
    engine.actions()
    seen = [engine.events()]
    while (wake := engine.wake_at) is not None and wake <= now + 2 * SOON:
        now = max(now, wake)
        engine.tick(now)
        engine.actions()
        seen.append(engine.events())
    return seen


def test_a_stream_that_comes_at_once_is_taken_in_by_turns_and_whole() -> None:
    engine = server()
    data = route() + b"".join(message(n) for n in range(1_000))
    engine.handle(StreamBytes(6, data, True), 0.0)
    counts = [batches(seen) for seen in each_turn(engine)]
    assert sum(counts) == 1_000
    assert max(counts) <= WORK
    assert engine.footprint.size < server().footprint.size + 1_000 * 200 + len(data)
    assert engine.statistics.messages_received == 1_000


def test_channels_that_messages_bring_count_more_than_messages() -> None:
    engine = server()
    data = route() + b"".join(message(n, attached=10) for n in range(50))
    before = engine.open_channels
    engine.handle(StreamBytes(6, data, True), 0.0)
    engine.actions()
    made = engine.open_channels - before
    assert 0 < made <= WORK / CHANNEL + 10
    proceed(engine, 0.0)
    assert engine.open_channels - before == 500


def test_credit_goes_back_with_what_was_taken_in() -> None:
    engine = server()
    data = b"".join([route(), *(b"\x05\x01" for _ in range(10 * WORK))])
    engine.handle(StreamBytes(6, data, False), 0.0)
    given = []
    now = 0.0
    while True:
        given.append(sum(o.count for o in engine.actions() if isinstance(o, Consumed)))
        wake = engine.wake_at
        if wake is None or wake > now + 2 * SOON:
            break
        now = wake
        engine.tick(now)
    assert sum(given) == len(data)
    assert max(given) <= 2 * WORK + 8


def test_streams_are_taken_in_in_the_order_in_which_they_came() -> None:
    """A carrier that came first is seen first, however long its stream goes on to be."""
    engine = server(max_unclaimed_channels=1)
    carriers = route()
    stream, channel = 10, 0
    for number in range(300):
        carriers += message(number, attached=2)
        engine.handle(StreamBytes(6, carriers, False), 0.0)
        carriers = b""
        for _ in range(2):
            channel += 1
            engine.handle(StreamBytes(stream, route(8 * channel) + b"\x07", True), 0.0)
            stream += 4
    seen = [item for event in each_turn(engine) for item in event]
    assert engine.closed is None
    assert batches(seen) == 300


def test_a_stream_does_not_overtake_others_because_it_goes_on() -> None:
    engine = server()
    engine.handle(StreamBytes(6, route() + b"\x05\x01" * (4 * WORK), False), 0.0)
    engine.handle(StreamBytes(10, route() + message(0), True), 0.0)
    now, turns, seen = 0.0, 0, 0
    while not seen:
        engine.handle(StreamBytes(6, b"\x05\x01" * WORK, False), now)
        engine.actions()
        seen = batches(engine.events())
        now += 2 * SOON
        engine.tick(now)
        turns += 1
        assert turns < 10


def test_a_reset_takes_effect_behind_the_frames_that_came_whole() -> None:
    engine = server()
    data = route() + b"".join(message(n) for n in range(5 * WORK))
    engine.handle(StreamBytes(6, data + b"\x04", False), 0.0)
    engine.handle(StreamReset(6, 0), 0.0)
    assert sum(map(batches, each_turn(engine))) == 5 * WORK
    assert engine.closed is None
    assert not engine._ingress.streams
    assert engine._ingress.unread == 0


def test_what_breaks_the_protocol_ends_the_connection_in_its_turn() -> None:
    engine = server()
    data = route() + b"".join(message(n) for n in range(3 * WORK))
    engine.handle(StreamBytes(6, data + b"\xff", False), 0.0)
    assert engine.closed is None
    seen = [item for event in each_turn(engine) for item in event]
    assert batches(seen) == 3 * WORK
    assert isinstance(seen[-1], Closed)
    assert engine.wake_at is None


def test_what_waits_goes_on_behind_a_pause() -> None:
    engine = server()
    data = route() + b"".join(message(n) for n in range(5 * WORK))
    engine.handle(StreamBytes(6, data, True), 0.0)
    engine.pause()
    paused = sum(map(batches, each_turn(engine)))
    assert paused <= WORK
    assert engine.wake_at is None or engine.wake_at > 2 * SOON
    engine.resume(1.0)
    assert sum(map(batches, each_turn(engine, 1.0))) == 5 * WORK - paused


def test_arrivals_that_wait_are_bounded() -> None:
    engine = server()
    engine.pause()
    for stream in (6, 10):
        engine.handle(StreamBytes(stream, route(), False), 0.0)
    for n in range(2 * ARRIVALS):
        engine.handle(StreamBytes((6, 10)[n % 2], message(n), False), 0.0)
    assert len(engine._ingress._waiting) == ARRIVALS
    engine.resume(0.0)
    assert sum(map(batches, each_turn(engine))) == 2 * ARRIVALS
    assert engine._ingress.unread == 0
    assert engine.closed is None


@pytest.mark.parametrize("seed", range(20))
def test_turns_change_nothing_but_the_time(seed: int) -> None:
    """The same bytes, cut anywhere, in turns of any length: the same messages of each channel."""
    rng = random.Random(seed)
    streams = {
        6 + 4 * n: route() + b"".join(message(number) for number in range(n, 200, 5))
        for n in range(5)
    }
    config = Config(auto_accept=True, work_per_turn=rng.choice([1, 7, 30, 10_000]))
    engine = Wire.server(config).engine
    rest = dict(streams)
    got: list[int] = []
    now = 0.0

    def turn() -> None:
        engine.actions()
        for item in engine.events():
            if isinstance(item, MessageBatch):
                got.extend(range(item.first, item.first + item.count))

    while rest:
        stream = rng.choice(list(rest))
        size = rng.randint(1, 200)
        piece, rest[stream] = rest[stream][:size], rest[stream][size:]
        end = not rest[stream]
        engine.handle(StreamBytes(stream, piece, end), now)
        if end:
            del rest[stream]
        if rng.random() < 0.5:
            turn()
        if rng.random() < 0.5:
            now += 2 * SOON
            engine.tick(now)
    while engine._ingress._waiting:
        turn()
        now += 2 * SOON
        engine.tick(now)
    turn()
    assert sorted(got) == list(range(200))
    assert engine.closed is None
    assert engine.side is Side.SERVER
    assert not engine._ingress.streams


@pytest.mark.parametrize(
    ("frame", "work"),
    [
        (CloseReceiver(), 1),
        (RouteTo(8), 4),
        (MessageFrame(0, (), (), b"x", 6), 1),
        (MessageFrame(0, (), (Attachment(8, ()), Attachment(16, ())), b"x", 9), 17),
        (Block(0, np.ones(16, np.int64), b"x" * 16, 99), 3),
        (AckReliable(tuple((4 * n, 4 * n + 1) for n in range(16))), 3),
        (AckNackUnreliable((1,) * 16), 3),
    ],
)
def test_the_work_of_a_frame(frame: Frame, work: float) -> None:
    assert work_of(frame) == work


def test_routes_to_channels_that_are_not_here_count_more() -> None:
    def turns(channel: Callable[[int], int]) -> int:
        engine = server()
        for n in range(100):
            engine.handle(StreamBytes(6 + 4 * n, route(channel(n)), False), 0.0)
        return len(each_turn(engine))

    known, unknown = turns(lambda n: 0), turns(lambda n: 8 * (n + 1))
    assert (known, unknown) == (4, 12)  # of 100: 25 routes of 4, and 8 or 9 of 12


def test_what_comes_between_two_turns_goes_behind_what_waits() -> None:
    engine = server()
    first = route() + b"".join(message(n) for n in range(3 * WORK))
    engine.handle(StreamBytes(6, first, True), 0.0)
    told = []
    engine.actions()
    told += engine.events()
    engine.handle(StreamBytes(10, route() + message(3 * WORK), True), 0.0)
    told += engine.events()
    assert 0 < batches(told) < 3 * WORK
    told += [event for turn in each_turn(engine) for event in turn]
    firsts = [item.first for item in told if isinstance(item, MessageBatch)]
    assert firsts == sorted(firsts)
    assert batches(told) == 3 * WORK + 1


def test_streams_that_come_before_the_headers_wait_by_turns_and_are_held() -> None:
    """The versions on them use the turn up; the headers come last."""
    engine = AqueductEngine(Side.SERVER, (), Config(auto_accept=True, work_per_turn=WORK))
    count = 3 * WORK
    for n in range(count):
        engine.handle(StreamBytes(6 + 4 * n, codec.VERSION + route() + message(n), True), 0.0)
    engine.handle(StreamBytes(2, codec.VERSION + b"\x02\x00", True), 0.0)
    told = [event for turn in each_turn(engine) for event in turn]
    assert engine.closed is None
    assert batches(told) == count
