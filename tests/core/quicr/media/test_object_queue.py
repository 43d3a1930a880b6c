"""A media as its publisher makes it."""

from __future__ import annotations

import pytest

from aqueduct_core.quicr.faults import MediaError
from aqueduct_core.quicr.media.cache import MediaCache
from aqueduct_core.quicr.media.cache_memory import CacheMemory
from aqueduct_core.quicr.media.fragment import MAX_OBJECT, Fragment
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import MAX_ID, Position
from aqueduct_core.quicr.media.source import NextFragment
from aqueduct_core.quicr.wire.codec import MessageReader, encode
from aqueduct_core.quicr.wire.messages import FinMessage
from tests.support.rules import rule


def put(queue: ObjectQueue, *positions: tuple[int, int], data: bytes = b"data") -> None:
    for position in positions:
        queue.append(Position(*position), data, 0x81, 1.0)


def given(queue: ObjectQueue) -> list[Fragment]:
    found = []
    while (waiting := queue.peek()) is not None:
        found.append(waiting.fragment)
        queue.advance()
    return found


def test_objects_wait_in_their_order_until_they_are_sent() -> None:
    queue = ObjectQueue()
    put(queue, (0, 0), (0, 1), (1, 0))
    assert queue.size == 12
    assert queue.peek() == NextFragment(Fragment(0, 0, 0, b"data", True, 0x81, 0, 0), 1.0)
    assert [(each.position, each.previous) for each in given(queue)] == [
        ((0, 0), 0),
        ((0, 1), None),
        ((1, 0), 2),
    ]
    assert queue.size == 0
    assert queue.next == (1, 1)


@rule("Q-19")
def test_the_final_point_lies_behind_the_last_object() -> None:
    for positions, final in (([], (0, 0)), ([(0, 0), (1, 0), (1, 1)], (1, 2))):
        queue = ObjectQueue()
        put(queue, *positions)
        assert queue.final is None
        queue.finish()
        queue.finish()
        assert queue.final == final


def test_a_media_may_begin_where_others_have_ended() -> None:
    queue = ObjectQueue(Position(4, 7))
    with pytest.raises(MediaError, match=r"object \(5, 0\) comes where \(4, 7\) is next"):
        put(queue, (5, 0))
    put(queue, (4, 7), (5, 0))
    assert [(each.position, each.previous) for each in given(queue)] == [
        ((4, 7), None),
        ((5, 0), 8),
    ]


@rule("Q-11", "Q-37", "Q-38")
def test_what_cannot_be_carried_is_refused_by_name() -> None:
    queue = ObjectQueue()
    put(queue, (0, 0))
    for position, data, flags, text in (
        ((0, 2), b"a", 0, r"object \(0, 2\) comes where \(0, 1\) or \(1, 0\) is next"),
        ((0, 1), b"", 0, r"object \(0, 1\) is empty, and would be a hole"),
        ((0, 1), bytes(MAX_OBJECT + 1), 0, r"object \(0, 1\) has 67108865 bytes, above 67108864"),
        ((0, 1), b"a", 0xFF, r"flags 0xff of object \(0, 1\)"),
        ((0, 1), b"a", -1, r"flags -0x1 of object"),
    ):
        with pytest.raises(MediaError, match=text):
            queue.append(Position(*position), data, flags, 1.0)
    assert [each.position for each in given(queue)] == [(0, 0)]
    queue.finish()
    with pytest.raises(MediaError, match=r"object \(0, 1\) comes behind the end of the media"):
        put(queue, (0, 1))


def test_numbers_of_objects_are_bounded() -> None:
    queue = ObjectQueue(Position(0, MAX_ID))
    put(queue, (0, MAX_ID))
    with pytest.raises(MediaError, match=f"groups and objects go to {MAX_ID}"):
        put(queue, (0, MAX_ID + 1))
    put(queue, (1, 0))


@rule("Q-19")
def test_a_group_may_have_an_object_of_the_highest_number() -> None:
    """Its final point is one more; a relay that ends it has no room for a hole behind it."""
    queue = ObjectQueue(Position(0, MAX_ID))
    put(queue, (0, MAX_ID))
    queue.finish()
    assert queue.final is not None
    read = MessageReader(max_url=10)
    read.feed(encode(FinMessage(queue.final)))
    assert read.read() == [FinMessage(Position(0, MAX_ID + 1))]
    cache = MediaCache(CacheMemory())
    cache.add(Fragment(0, MAX_ID, 0, b"last", True), 0.0)
    cache.start_at(Position(0, MAX_ID), 0.0)
    cache.cut_short(0.0)
    assert (cache.final, cache.complete) == (queue.final, True)
