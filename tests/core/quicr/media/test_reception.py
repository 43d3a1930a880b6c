"""A media as an application gets it: in order, whole, with all that is missing told."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.quicr.media import assembly, progress
from aqueduct_core.quicr.media.assembly import MediaObject
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import Position, PositionRange
from aqueduct_core.quicr.media.recent_objects import RECENT_BYTES
from aqueduct_core.quicr.media.reception import (
    Conflict,
    Gap,
    GapReason,
    ObjectOrder,
    Reception,
)
from tests.core.quicr.media.pieces import deliveries, media_of, pieces, stretch
from tests.support.rules import rule

ORDERS: tuple[ObjectOrder, ...] = ("media", "arrival")
either_order = pytest.mark.parametrize("order", ORDERS)


def one(group: int, object: int, data: bytes = b"abc", previous: int | None = None) -> Fragment:
    return Fragment(group, object, 0, data, True, 0x81, 0, previous)


def gap(start: tuple[int, int], stop: tuple[int, int], reason: GapReason) -> Gap:
    return Gap(PositionRange(Position(*start), Position(*stop)), reason)


def positions(objects: list[MediaObject]) -> list[tuple[int, int]]:
    return [each.position for each in objects]


# all that comes


@rule("Q-9", "Q-12", "Q-13", "Q-15")
@given(st.data())
def test_a_media_comes_in_its_order_however_it_travelled(data: st.DataObject) -> None:
    """In any pieces and order, with repeats, and the final point anywhere."""
    start = Position(2, 1)
    wholes = media_of(4, 2, 3, start=start)
    fragments = data.draw(deliveries(wholes))
    start_at = data.draw(st.integers(0, len(fragments)))
    finish_at = data.draw(st.integers(0, len(fragments)))
    media, arrival = Reception(), Reception(order="arrival")
    taken: dict[Reception, list[MediaObject]] = {media: [], arrival: []}
    for reception, objects in taken.items():
        for now, fragment in enumerate([*fragments, None]):
            if now == start_at:
                reception.start_at(start, now)
            if now == finish_at:
                reception.finish(Position(4, 3), now)
            if fragment is not None:
                reception.handle([fragment], now)
            objects += reception.take()
        assert reception.complete
        assert reception.wake_at is None
        assert reception.gaps() == [gap((0, 0), (2, 1), GapReason.START)]
        assert reception.conflicts() == []
    assert positions(taken[media]) == [each.position for each in wholes]
    assert sorted(taken[arrival]) == [
        each._replace(received=other.received)
        for each, other in zip(taken[media], sorted(taken[arrival]), strict=True)
    ]
    assert [each.received for each in taken[arrival]] == sorted(
        each.received for each in taken[arrival]
    )
    for whole, found in zip(wholes, taken[media], strict=True):
        assert found.payload in (whole.data, None)
        assert found.flags in ((0xFF,) if found.payload is None else (0, 0x81))


def test_arrival_order_gives_on_what_is_whole_at_once() -> None:
    reception = Reception(order="arrival")
    reception.handle([one(2, 0, previous=3), one(0, 5), *pieces(one(0, 0), 1)], 1.0)
    assert positions(reception.take()) == [(2, 0), (0, 5), (0, 0)]
    assert reception.wake_at is None


def test_media_order_waits_for_what_is_before() -> None:
    reception = Reception()
    first, second = pieces(one(0, 1), 1)
    reception.handle([one(0, 0), second, one(0, 2)], 1.0)
    assert positions(reception.take()) == [(0, 0)]
    assert reception.front == (0, 1)
    reception.handle([one(1, 0, previous=3), first], 2.0)
    assert positions(reception.take()) == [(0, 1), (0, 2), (1, 0)]
    assert reception.take() == []


@rule("Q-36")
@either_order
def test_holes_are_objects_without_payload(order: ObjectOrder) -> None:
    """And count for the end."""
    reception = Reception(order=order)
    reception.handle([one(0, 0), hole(Position(0, 1)), hole(Position(1, 0), 2)], 1.0)
    reception.finish(Position(1, 1), 1.0)
    assert reception.complete
    assert [each.payload for each in reception.take()] == [b"abc", None, None]
    assert reception.gaps() == []


@rule("Q-19")
@either_order
def test_a_media_without_objects_is_complete(order: ObjectOrder) -> None:
    reception = Reception(order=order)
    reception.finish(Position(0, 0), 1.0)
    assert reception.complete


@either_order
def test_what_the_application_has_is_ignored(order: ObjectOrder) -> None:
    reception = Reception(order=order, begin=Position(1, 1))
    reception.handle([one(0, 0), one(1, 0, previous=1), one(1, 1), one(1, 2)], 1.0)
    assert positions(reception.take()) == [(1, 1), (1, 2)]
    reception.start_at(Position(1, 0), 1.0)
    assert reception.gaps() == []


@rule("Q-15")
@either_order
def test_a_start_behind_what_the_application_has_is_a_gap(order: ObjectOrder) -> None:
    """Also where it is told behind all else."""
    reception = Reception(order=order, begin=Position(1, 1))
    reception.handle([one(2, 1)], 1.0)
    reception.finish(Position(2, 2), 1.0)
    assert not reception.complete
    reception.start_at(Position(2, 1), 1.5)
    assert reception.complete
    assert positions(reception.take()) == [(2, 1)]
    assert reception.gaps() == [gap((1, 1), (2, 1), GapReason.START)]


@either_order
def test_a_media_that_comes_again_is_taken_once(order: ObjectOrder) -> None:
    """As after a lost connection."""
    reception = Reception(order=order)
    wholes = media_of(3, 3)
    reception.handle(wholes[:4], 1.0)
    reception.handle([part for whole in wholes for part in pieces(whole, 1, 2)], 2.0)
    assert positions(reception.take()) == [each.position for each in wholes]
    assert reception.conflicts() == []


# time


def test_behind_a_hole_an_object_waits_so_long_and_no_longer() -> None:
    reception = Reception(hole_timeout=0.5)
    reception.handle([one(0, 0), one(0, 4)], 10.0)
    reception.handle([one(0, 2)], 10.3)
    reception.take()
    assert reception.wake_at == 10.5
    reception.tick(10.4)
    assert reception.take() == []
    reception.tick(10.5)
    assert positions(reception.take()) == [(0, 2), (0, 4)]
    assert reception.gaps() == [
        gap((0, 1), (0, 2), GapReason.TIME),
        gap((0, 3), (0, 4), GapReason.TIME),
    ]
    assert reception.wake_at is None
    reception.handle([one(0, 1)], 11.0)
    assert reception.take() == []


def test_only_holes_before_what_waited_so_long_are_given_up() -> None:
    reception = Reception(hole_timeout=0.5)
    reception.handle([one(0, 1)], 10.0)
    reception.handle([one(0, 3)], 10.2)
    reception.tick(10.5)
    assert positions(reception.take()) == [(0, 1)]
    assert reception.gaps() == [gap((0, 0), (0, 1), GapReason.TIME)]
    assert reception.wake_at == 10.7


def test_what_is_begun_and_given_up_by_time_is_let_go() -> None:
    reception = Reception(hole_timeout=0.5, max_bytes=1 << 20)
    reception.handle([stretch(one(0, 0, bytes(600_000)), 0, 500_000), one(0, 1)], 10.0)
    reception.tick(10.5)
    assert positions(reception.take()) == [(0, 1)]
    reception.handle([stretch(one(0, 2, bytes(600_000)), 0, 599_999)], 11.0)
    reception.handle([stretch(one(0, 2, bytes(600_000)), 599_999, 600_000)], 11.0)
    assert positions(reception.take()) == [(0, 2)]
    assert reception.gaps() == [gap((0, 0), (0, 1), GapReason.TIME)]


@rule("Q-9")
@either_order
def test_the_last_objects_may_be_late_so_long_as_something_comes(order: ObjectOrder) -> None:
    """The final point may come before them."""
    reception = Reception(order=order, hole_timeout=0.5)
    reception.handle([one(0, 0)], 10.0)
    reception.finish(Position(0, 4), 10.1)
    assert reception.wake_at == 10.6
    reception.handle([one(0, 1)], 10.4)
    assert reception.wake_at == 10.9
    reception.tick(10.9)
    assert reception.complete
    assert reception.gaps() == [gap((0, 2), (0, 4), GapReason.TIME)]
    assert reception.wake_at is None


def test_in_order_of_arrival_a_hole_is_given_up_at_the_end() -> None:
    """Nothing waits for it before."""
    reception = Reception(order="arrival", hole_timeout=0.5)
    reception.handle([one(0, 0), one(0, 2), one(1, 0, previous=3)], 10.0)
    assert reception.wake_at is None
    reception.finish(Position(1, 1), 20.0)
    reception.handle([one(0, 1)], 20.5)
    reception.tick(20.5)
    assert reception.complete
    assert positions(reception.take()) == [(0, 0), (0, 2), (1, 0), (0, 1)]


@either_order
def test_one_may_wait_for_ever(order: ObjectOrder) -> None:
    reception = Reception(order=order, hole_timeout=math.inf)
    reception.handle([one(0, 1)], 10.0)
    reception.finish(Position(0, 2), 10.0)
    assert reception.wake_at is None
    reception.tick(1e9)
    assert not reception.complete


@rule("K-4")
def test_an_object_whose_place_has_passed_is_told() -> None:
    """Its group was said to have two, and so the next one was given on."""
    for order in ORDERS:
        reception = Reception(order=order)
        reception.handle([one(0, 0), one(0, 1), one(1, 0, previous=2), one(0, 2)], 1.0)
        late = reception.take()
        if order == "arrival":
            assert positions(late) == [(0, 0), (0, 1), (1, 0), (0, 2)]
            assert reception.gaps() == []
        else:
            assert positions(late) == [(0, 0), (0, 1), (1, 0)]
            assert reception.gaps() == [gap((0, 2), (0, 3), GapReason.LATE)]
        reception.handle([one(0, 2)], 2.0)
        assert reception.take() == []
        assert reception.gaps() == []


# other bytes


@either_order
def test_other_bytes_under_the_same_number_are_a_conflict(order: ObjectOrder) -> None:
    """The first stays."""
    reception = Reception(order=order)
    reception.handle([one(0, 0), one(0, 1)], 1.0)
    reception.handle([one(0, 0, b"abd"), one(0, 1)], 1.0)
    assert [each.payload for each in reception.take()] == [b"abc", b"abc"]
    reception.handle([one(0, 1, b"abcd")], 2.0)
    assert reception.conflicts() == [
        Conflict(Position(0, 0), "its 3 bytes are others than before"),
        Conflict(Position(0, 1), "it has 4 bytes, and had 3 before"),
    ]
    assert reception.take() == []
    assert reception.conflicts() == []


def test_an_object_that_was_a_hole_before_is_no_conflict() -> None:
    """Nor the other way round: hops give up different objects. The first stays."""
    reception = Reception()
    reception.handle([hole(Position(0, 0)), one(0, 0), one(0, 1), hole(Position(0, 1))], 1.0)
    assert [each.payload for each in reception.take()] == [None, b"abc"]
    assert reception.conflicts() == []


def test_a_contradiction_is_a_conflict_and_the_first_stays() -> None:
    reception = Reception()
    first, second = pieces(one(0, 0), 1)
    reception.handle([second, Fragment(0, 0, 1, b"xyz", False), first], 1.0)
    assert reception.conflicts() == [
        Conflict(Position(0, 0), "it ends at byte 4, and had 3 before")
    ]
    assert [each.payload for each in reception.take()] == [b"abc"]


# memory


@either_order
def test_some_fragments_of_many_objects_cost_bounded_memory(order: ObjectOrder) -> None:
    """The objects that were begun first are given up, and told; what comes of them is ignored."""
    reception = Reception(order=order, max_bytes=100_000)
    count = 100_000
    for object in range(count):
        reception.handle([Fragment(0, object, 0, b"ab", False)], 1.0)
        assert reception.size <= 100_000 + progress.RANGES * progress.RANGE_BYTES
    kept = 100_000 // (assembly.PARTIAL_BYTES + 2)
    assert reception.gaps() == [gap((0, 0), (0, count - kept), GapReason.MEMORY)]
    reception.handle([one(0, 0), *(one(0, each) for each in range(count - kept, count))], 2.0)
    assert positions(reception.take()) == [(0, each) for each in range(count - kept, count)]


def test_what_waits_for_a_hole_costs_bounded_memory() -> None:
    reception = Reception(max_bytes=100_000)
    taken = []
    for object in range(1, 200):
        reception.handle([one(0, object, bytes(1000))], 1.0)
        taken += reception.take()
        assert reception.size <= 100_000 + 200 * RECENT_BYTES
    assert positions(taken) == [(0, each) for each in range(1, 200)]
    assert reception.gaps() == [gap((0, 0), (0, 1), GapReason.MEMORY)]


def test_with_little_memory_only_the_oldest_hole_is_given_up() -> None:
    reception = Reception(max_bytes=10_000)
    reception.handle([one(0, 1, bytes(4000)), one(0, 3, bytes(4000))], 1.0)
    reception.handle([one(0, 5, bytes(1000))], 1.0)
    assert positions(reception.take()) == [(0, 1)]
    assert reception.gaps() == [gap((0, 0), (0, 1), GapReason.MEMORY)]


def test_an_object_larger_than_the_memory_is_given_up() -> None:
    reception = Reception(max_bytes=10_000)
    whole = one(0, 0, bytes(20_000))
    reception.handle([*pieces(whole, *range(0, 20_000, 1000)), one(0, 1)], 1.0)
    assert positions(reception.take()) == [(0, 1)]
    assert reception.gaps() == [gap((0, 0), (0, 1), GapReason.MEMORY)]


def test_an_object_in_too_many_stretches_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "STRETCHES", 3)
    reception = Reception()
    whole = one(0, 0, bytes(20))
    reception.handle([stretch(whole, at, at + 1) for at in range(1, 10, 2)], 1.0)
    reception.handle([one(0, 1)], 1.0)
    assert positions(reception.take()) == [(0, 1)]
    assert reception.gaps() == [gap((0, 0), (0, 1), GapReason.MEMORY)]


@either_order
def test_scattered_objects_cost_bounded_memory(order: ObjectOrder) -> None:
    """The oldest holes are given up, and told."""
    reception = Reception(order=order)
    for object in range(1, 4 * progress.RANGES, 2):
        reception.handle([one(0, object)], 1.0)
    holes = reception.gaps()
    assert len(holes) == progress.RANGES
    assert all(each.reason is GapReason.MEMORY for each in holes)
    taken = positions(reception.take())
    if order == "media":
        assert taken == [(0, each) for each in range(1, 2 * progress.RANGES + 1, 2)]
    else:
        assert len(taken) == 2 * progress.RANGES


def test_what_is_taken_is_let_go() -> None:
    reception = Reception()
    reception.handle([one(0, each, bytes(1000)) for each in range(100)], 1.0)
    before = reception.size
    reception.take()
    assert reception.size <= before - 100_000
