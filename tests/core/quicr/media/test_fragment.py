"""Pieces of objects as values."""

from __future__ import annotations

from aqueduct_core.quicr.media.fragment import HOLE, Fragment, hole
from aqueduct_core.quicr.media.position import Position
from tests.support.rules import rule


@rule("Q-36", "Q-38")
def test_a_hole_is_the_whole_of_an_object_without_bytes() -> None:
    assert hole(Position(3, 1)) == Fragment(3, 1, 0, b"", True, HOLE)
    assert hole(Position(3, 0), 7) == Fragment(3, 0, 0, b"", True, HOLE, 0, 7)
    assert hole(Position(3, 1)).is_hole
    assert Fragment(3, 1, 0, b"", True, 0).is_hole
    for other in (Fragment(3, 1, 4, b"", True), Fragment(3, 1, 0, b"a", True)):
        assert not other.is_hole
        assert not other.is_void


def test_without_bytes_and_end_a_fragment_says_nothing() -> None:
    assert Fragment(3, 1, 4, b"", False, HOLE).is_void
    assert not Fragment(3, 1, 4, b"", False).is_hole


def test_a_log_shows_no_bytes() -> None:
    assert [
        repr(each)
        for each in (
            Fragment(3, 1, 4, b"secret", False, 0x81),
            Fragment(3, 1, 4, b"secret", True),
            hole(Position(3, 1)),
        )
    ] == [
        "<Fragment (3, 1) [4:10) flags=0x81>",
        "<Fragment (3, 1) [4:10] flags=0x00>",
        "<Fragment (3, 1) hole flags=0xff>",
    ]
