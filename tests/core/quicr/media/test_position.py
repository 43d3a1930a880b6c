"""Where objects stand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.quicr.media.position import (
    MAX_ID,
    Position,
    PositionRange,
    at_number,
    range_of,
)

POSITIONS = st.builds(Position, st.integers(0, MAX_ID), st.integers(0, MAX_ID))


@given(POSITIONS, POSITIONS)
def test_numbers_are_in_media_order(one: Position, other: Position) -> None:
    assert at_number(one.number) == one
    assert (one.number < other.number) == (one < other)
    assert 0 <= one.number < 1 << 60
    assert range_of(one.number, other.number) == (one, other)


def test_behind_the_last_number_of_a_group_is_the_next_group() -> None:
    last = Position(3, MAX_ID)
    assert at_number(last.number + 1) == (4, 0)
    assert last.following.number == Position(4, 0).number


def test_positions_are_told_as_people_write_them() -> None:
    assert str(Position(3, 7)) == "(3, 7)"
    assert str(PositionRange(Position(3, 7), Position(4, 0))) == "from (3, 7) up to (4, 0)"
