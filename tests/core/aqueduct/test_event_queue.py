"""Events on their way to the application: coalesced, in order, and in batches that stay small."""

from __future__ import annotations

import pytest

from aqueduct_core.aqueduct.event_queue import EventQueue
from aqueduct_core.aqueduct.events import Delivered, Idle, Numbered, Writable
from aqueduct_core.aqueduct.statistics import PIECE_BYTES
from aqueduct_core.aqueduct.wire.frames import MessageFrame
from aqueduct_core.engine.message_batch import MessageBatch
from tests.support.wire import Wire

MIB = 1 << 20


def batches(sizes: list[int]) -> list[int]:
    """How many messages of a burst come in each batch."""
    events = EventQueue()
    for number, size in enumerate(sizes):
        began = events.emit_message(0, True, MessageFrame(number, (), (), bytes(size), size + 5))
        assert began is (number == 0 or sum(counted(events)[:-1]) == number)
    return counted(events)


def counted(events: EventQueue) -> list[int]:
    return [builder.count for builder in events._items]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ([8 * MIB, 1], [1, 1]),
        ([8 * MIB - 1, 1, 1], [2, 1]),
        ([3 * MIB] * 7, [3, 3, 1]),
        ([1] * 100, [100]),
    ],
)
def test_a_batch_takes_messages_while_it_has_less_than_8_mib(
    sizes: list[int], counts: list[int]
) -> None:
    assert batches(sizes) == counts


def block(first: int, count: int) -> str:
    return "".join(f"04{number:02x}0000026162" for number in range(first, first + count))


def test_a_run_that_goes_on_is_one_piece_and_one_that_begins_is_another() -> None:
    server = Wire.server()
    stream = server.stream("0300" + block(0, 20))
    server.stream(block(20, 20), stream)
    assert server.engine.footprint.waiting == 40 * 7 + PIECE_BYTES
    (batch,) = server.events(MessageBatch)
    assert (batch.first, batch.count, batch.size) == (0, 40, 40 * 7)
    server.stream(block(40, 20), stream)
    server.stream(block(60, 20), stream)
    assert server.engine.footprint.waiting == 80 * 7 + 2 * PIECE_BYTES


def test_blocks_fill_a_run_as_messages_do() -> None:
    server = Wire.server()
    stream = server.stream("0300")
    payload = "61" * (MIB // 2)
    size = "808020"
    for number in range(0, 40, 2):
        server.stream(
            "".join(f"04{n:02x}0000{size}{payload}" for n in (number, number + 1)), stream
        )
    assert [batch.count for batch in server.events(MessageBatch)] == [16, 16, 8]


def test_news_of_one_kind_are_one_where_they_touch() -> None:
    events = EventQueue()
    events.emit_delivered(0, True, 0, 2, True)
    events.emit_delivered(0, True, 2, 5, True)
    events.emit_delivered(0, True, 6, 7, True)
    events.emit_delivered(0, True, 5, 6, False)
    events.emit_delivered(0, False, 7, 8, True)
    events.emit_delivered(8, True, 7, 8, True)
    events.emit(Idle(8))
    events.emit_delivered(0, True, 7, 9, True)
    assert events.take() == [
        Delivered(0, True, 0, 5, True),
        Delivered(0, True, 6, 9, True),
        Delivered(0, True, 5, 6, False),
        Delivered(0, False, 7, 8, True),
        Delivered(8, True, 7, 8, True),
        Idle(8),
    ]
    events.emit_delivered(0, True, 9, 10, True)
    assert events.take() == [Delivered(0, True, 9, 10, True)]
    assert events.take() == []


def test_numbers_are_told_together_where_nothing_else_comes_between() -> None:
    events = EventQueue()
    events.emit_numbered(0, True, 3, ())
    events.emit_numbered(0, True, 4, ())
    events.emit_numbered(0, True, 5, (8,))
    events.emit_numbered(0, True, 6, ())
    events.emit_numbered(0, False, 7, ())
    events.emit_numbered(8, False, 8, ())
    events.emit(Writable(8))
    events.emit_numbered(8, False, 9, ())
    assert events.take() == [
        Numbered(0, True, 3, 5),
        Numbered(0, True, 5, 6, (8,)),
        Numbered(0, True, 6, 7),
        Numbered(0, False, 7, 8),
        Numbered(8, False, 8, 9),
        Writable(8),
        Numbered(8, False, 9, 10),
    ]
