"""Objects that come again, the same or others."""

from __future__ import annotations

from aqueduct_core.quicr.media.fragment import Fragment, hole
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.media.recent_objects import (
    RECENT_BYTES,
    RECENT_OBJECTS,
    REPEATED,
    RecentObjects,
)
from tests.core.quicr.media.pieces import pieces, stretch

WHOLE = Fragment(3, 4, 0, b"0123456789", True, 0x81, 7)
OTHER = WHOLE._replace(data=b"0123456789"[::-1])
LONGER = WHOLE._replace(data=b"0123456789a")
SHORTER = WHOLE._replace(data=b"012345678")


def after(whole: Fragment) -> RecentObjects:
    recent = RecentObjects()
    recent.add(whole.position, whole.data)
    return recent


def test_the_same_object_again_is_no_difference() -> None:
    recent = after(WHOLE)
    assert recent.difference(WHOLE) is None
    for cuts in ((1,), (5,), (3, 9)):
        assert [recent.difference(each) for each in pieces(WHOLE, *cuts)] == [None] * (
            len(cuts) + 1
        )
    assert recent.difference(hole(WHOLE.position)) is None


def test_another_object_is_one_as_a_whole_and_in_pieces() -> None:
    """Told once."""
    for cuts in ((), (1,), (3, 8)):
        for other, text in (
            (OTHER, "its 10 bytes are others than before"),
            (LONGER, "it has 11 bytes, and had 10 before"),
            (SHORTER, "it has 9 bytes, and had 10 before"),
        ):
            recent = after(WHOLE)
            *before, last = [recent.difference(each) for each in pieces(other, *cuts)]
            assert before == [None] * len(cuts)
            assert last == text
            assert [recent.difference(each) for each in pieces(other, *cuts)] == [None] * (
                len(cuts) + 1
            )


def test_more_than_there_was_is_a_difference_before_its_end() -> None:
    recent = after(WHOLE)
    assert recent.difference(LONGER._replace(last=False)) == "it has 11 bytes, and had 10 before"


def test_repeats_out_of_order_show_nothing() -> None:
    recent = after(WHOLE)
    for start, stop in ((4, 10), (0, 3), (4, 10), (3, 4)):
        assert recent.difference(stretch(OTHER, start, stop)) is None


def test_only_the_last_objects_are_known() -> None:
    recent = RecentObjects()
    for object in range(RECENT_OBJECTS + 1):
        recent.add(Position(0, object), b"a")
    assert recent.difference(Fragment(0, 0, 0, b"b", True)) is None
    for object in range(1, REPEATED + 2):
        assert recent.difference(Fragment(0, object, 0, b"b", False)) is None
    assert recent.size <= (RECENT_OBJECTS + REPEATED) * RECENT_BYTES
    assert recent.difference(Fragment(0, 1, 1, b"", True)) is None
    assert recent.difference(Fragment(0, 2, 1, b"", True)) is not None
