"""Pieces of one object: each byte once, and what came first stays."""

from __future__ import annotations

import random

import pytest

from aqueduct_core.quicr.media.cached_object import CachedObject, CachedPiece
from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import Position
from tests.support.rules import rule

PAYLOAD = bytes(range(100))


def piece(start: int, stop: int, *, flags: int = 0x81, last: bool | None = None) -> Fragment:
    end = stop == len(PAYLOAD) if last is None else last
    previous = None if start else 4
    return Fragment(2, 0, start, PAYLOAD[start:stop], end, flags, 7, previous)


def put(object: CachedObject, fragment: Fragment) -> list[Fragment]:
    fresh = object.fresh(fragment)
    for part in fresh:
        object.add(CachedPiece(part, 0.0, len(object.pieces)))
    return fresh


def read(object: CachedObject) -> bytes:
    """All from the beginning on, as a reader in media order gets it."""
    out, offset = b"", 0
    while (found := object.piece_at(offset)) is not None:
        out += found.fragment.data
        if found.fragment.last:
            break
        offset = found.fragment.stop
    return out


@rule("Q-12")
@pytest.mark.parametrize("seed", range(50))
def test_any_split_overlap_and_repeat_gives_the_object(seed: int) -> None:
    rng = random.Random(seed)
    object = CachedObject()
    while not object.complete:
        start = rng.randrange(100)
        put(object, piece(start, rng.randint(start + 1, 100)))
    assert read(object) == PAYLOAD
    assert sum(len(each.fragment.data) for each in object.pieces) == 100
    assert put(object, piece(0, 100)) == []


def test_only_the_bytes_that_are_new_are_kept() -> None:
    object = CachedObject()
    put(object, piece(10, 20))
    put(object, piece(30, 40))
    fresh = put(object, piece(0, 50))
    assert [(part.offset, part.stop, part.previous) for part in fresh] == [
        (0, 10, 4),
        (20, 30, None),
        (40, 50, None),
    ]
    assert not object.complete


def test_an_end_without_data_of_its_own() -> None:
    object = CachedObject()
    put(object, piece(0, 100, last=False))
    assert not object.complete
    fresh = put(object, piece(40, 100))
    assert [(part.offset, part.stop, part.last) for part in fresh] == [(100, 100, True)]
    assert object.complete
    assert read(object) == PAYLOAD
    assert object.piece_at(100) is not None


@rule("K-3")
def test_flags_are_those_that_came_first_and_are_not_zero() -> None:
    """A repeat of the prototype has flags 0."""
    object = CachedObject()
    put(object, piece(0, 10, flags=0))
    put(object, piece(10, 20, flags=0x83))
    (fresh,) = put(object, piece(20, 30, flags=0))
    assert (object.flags, fresh.flags) == (0x83, 0x83)


def test_what_contradicts_what_is_here_is_left_out() -> None:
    object = CachedObject()
    put(object, piece(0, 50, last=True))
    assert put(object, piece(40, 60)) == []
    assert put(object, piece(0, 30, last=True)) == []
    assert read(object) == PAYLOAD[:50]
    begun = CachedObject()
    put(begun, piece(0, 50))
    assert put(begun, piece(10, 40, last=True)) == []
    assert put(begun, hole(Position(2, 0))) == []


def test_a_hole_is_complete() -> None:
    object = CachedObject()
    put(object, hole(Position(2, 0), 3))
    assert object.complete
    assert object.is_hole
    assert put(object, piece(0, 100)) == []


def test_the_last_number_is_that_of_the_piece_that_came_last() -> None:
    object = CachedObject()
    object.add(CachedPiece(piece(50, 60), 0.0, 4))
    object.add(CachedPiece(piece(0, 10), 0.0, 9))
    assert object.last_number == 9
