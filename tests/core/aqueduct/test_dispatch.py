"""Frames at the half that they are for: limits of what waits, credit of a block, counts."""

from __future__ import annotations

from collections import Counter

import pytest

from aqueduct_core.aqueduct.engine import Config, Mode
from aqueduct_core.aqueduct.events import Delivered, End, Ended
from aqueduct_core.engine.actions import Consumed
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.rules import rule
from tests.support.wire import Wire


def message(number: int, size: int = 1) -> str:
    return f"04{number:02x}0000{size:02x}" + "61" * size


def server(**options: int) -> Wire:
    return Wire.server(Config(auto_accept=True, **options))  # type: ignore[arg-type]


def given_back(wire: Wire) -> Counter[int]:
    """Credit that came back for each stream."""
    wire.pump()
    back: Counter[int] = Counter()
    for action in wire.actions:
        if isinstance(action, Consumed):
            back[action.stream_id] += action.count
    return back


@rule("AQ-SEQ-9")
@pytest.mark.parametrize("early", [0, 3], ids=["at once", "begun before"])
def test_a_block_that_is_good_in_part_gives_each_byte_back_once(early: int) -> None:
    wire = server()
    finish = wire.stream("03000603")
    frames = "".join(map(message, range(6)))
    stream = wire.stream("0300" + frames[: 2 * early])
    wire.stream(frames[2 * early :], stream)
    (batch,) = wire.events(MessageBatch)
    assert batch.count == 3
    assert [ended.end for ended in wire.events(Ended)] == [End.FINISHED]
    assert given_back(wire) == {finish: 4, stream: 2 + 3 * 6}
    wire.engine.consumed(0, batch.size, 0)
    assert given_back(wire) == {finish: 4, stream: 2 + 6 * 6}


def test_a_channel_may_have_as_much_unconsumed_as_its_limit() -> None:
    wire = server(max_channel_queue_bytes=18)
    wire.stream("0300" + message(0))
    wire.stream("0300" + message(1))
    wire.stream("0300" + message(2))
    assert wire.engine.half_open(0)
    wire.stream("0300" + message(3))
    assert [ended.end for ended in wire.events(Ended)] == [End.OVERFLOW]
    assert wire.engine.statistics.overflows == 1
    wire.stream("0308" + message(0, 100))
    assert wire.engine.statistics.overflows == 2
    assert wire.code is None


def test_pieces_may_be_as_many_as_their_limit() -> None:
    wire = server(max_queue_pieces=3)
    for number in range(3):
        wire.stream("0300" + message(number))
        wire.pump()
    assert wire.engine.half_open(0)
    wire.stream("0300" + message(3))
    assert [ended.end for ended in wire.events(Ended)] == [End.OVERFLOW]


def test_a_datagram_that_has_no_room_on_its_channel_is_lost_and_the_channel_lives() -> None:
    wire = server(max_channel_queue_bytes=12)
    for number in range(4):
        wire.datagram("0300" + message(number))
    (batch,) = wire.events(MessageBatch)
    assert batch.count == 2
    assert wire.engine.half_open(0)
    assert wire.engine.statistics.overflows == 2


def test_credit_ahead_of_a_frame_is_given_up_to_the_limit() -> None:
    for limit, ahead in ((6, 3), (5, 0)):
        wire = server(early_credit_bytes=limit)
        stream = wire.stream("0300" + message(0) + message(1)[:6])
        assert given_back(wire) == {stream: 2 + ahead}


def test_messages_are_counted_over_all_bursts() -> None:
    wire = server()
    wire.stream("0300" + message(0) + message(1))
    wire.stream("0300" + message(2))
    wire.datagram("0300" + message(0))
    assert wire.engine.statistics.messages_received == 4


@rule("AQ-FLOW-2")
def test_dequeued_is_ignored_wherever_it_comes_without_flow_control() -> None:
    client = Wire.client()
    client.engine.send(0, b"x", now=0, mode=Mode.UNORDERED)
    client.stream("03000c64")
    client.stream("030008020001")
    assert client.code is None
    assert client.events(Delivered) == [Delivered(0, True, 0, 1, True)]
