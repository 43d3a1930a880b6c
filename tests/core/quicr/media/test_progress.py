"""Which objects of a media are here, against the plainest model, and in bounded memory."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.quicr.media.position import MAX_ID, Position, PositionRange
from aqueduct_core.quicr.media.progress import RANGE_BYTES, RANGES, RECENT_GROUPS, MediaProgress
from tests.core.quicr.media.naive_progress import GROUPS, OBJECTS, NaiveProgress
from tests.support.rules import rule

POSITIONS = st.builds(Position, st.integers(0, GROUPS - 1), st.integers(0, OBJECTS - 1))
ALL = [Position(group, object) for group in range(GROUPS) for object in range(OBJECTS)]
STEPS = st.lists(
    st.tuples(st.just("add"), POSITIONS)
    | st.tuples(
        st.just("note_previous"),
        st.integers(0, GROUPS - 1),
        st.none() | st.integers(0, OBJECTS),
    )
    | st.tuples(st.just("skip_to"), POSITIONS),
    max_size=40,
)


def progress_with(*positions: tuple[int, int]) -> MediaProgress:
    progress = MediaProgress()
    for position in positions:
        progress.add(Position(*position))
    return progress


@given(POSITIONS, STEPS, POSITIONS)
def test_it_is_what_one_position_after_the_other_gives(
    begin: Position, steps: list[tuple[Any, ...]], final: Position
) -> None:
    progress, model = MediaProgress(begin), NaiveProgress(begin)
    for name, *given_ in steps:
        before = progress.front
        if name == "skip_to":
            holes = progress.skip_to(*given_)
            missing = {each for each in ALL if each < given_[0] and model.misses(each)}
            assert {each for each in ALL if any(a <= each < b for a, b in holes)} == missing
        else:
            assert getattr(progress, name)(*given_) is None
        getattr(model, name)(*given_)
        assert progress.front == model.front >= before
        assert [each in progress for each in ALL] == [each in model for each in ALL]
    model.final = final
    progress.finish(final)
    assert progress.complete == model.complete
    for start, stop in progress.missing(final):
        assert start < stop
        assert start not in progress


def test_objects_in_order_are_one_number() -> None:
    progress = MediaProgress()
    for group in range(3 * RECENT_GROUPS):
        progress.note_previous(group, 3 if group else 0)
        for object in range(3):
            position = Position(group, object)
            assert position not in progress
            assert progress.add(position) is None
            assert position in progress
    assert progress.front == (3 * RECENT_GROUPS - 1, 3)
    assert progress.missing(progress.front.following) != []
    assert progress.missing(progress.front) == []
    assert progress.size <= RECENT_GROUPS * RANGE_BYTES


@rule("Q-13")
def test_the_front_waits_for_the_size_of_a_group() -> None:
    """And only its last object can be missing where the next group is there."""
    progress = progress_with((0, 0), (0, 1), (1, 0))
    assert progress.front == (0, 2)
    assert progress.missing(Position(1, 0)) == [PositionRange(Position(0, 2), Position(1, 0))]
    progress.note_previous(1, 3)
    assert progress.missing(Position(1, 0)) == [PositionRange(Position(0, 2), Position(0, 3))]
    progress.add(Position(0, 2))
    assert progress.front == (1, 1)


@rule("K-4")
def test_one_too_few_is_no_loss() -> None:
    """An origin of the prototype that has the media from a stream says 2 of 3."""
    seen = progress_with((0, 0), (0, 2))
    seen.note_previous(1, 2)
    assert seen.front == (0, 1)
    seen.add(Position(0, 1))
    assert seen.front == (1, 0)

    overtaken = progress_with((0, 0), (0, 1))
    overtaken.note_previous(1, 2)
    overtaken.add(Position(1, 0))
    assert overtaken.front == (1, 1)
    late = Position(0, 2)
    assert late not in overtaken
    overtaken.add(late)
    assert late in overtaken
    assert late.following not in overtaken
    assert overtaken.front == (1, 1)


@rule("K-4")
def test_an_unknown_size_changes_nothing() -> None:
    progress = progress_with((0, 0), (1, 0))
    progress.note_previous(1, None)
    assert progress.front == (0, 1)


def test_the_first_group_has_none_before_it() -> None:
    progress = MediaProgress()
    progress.note_previous(0, 5)
    assert progress.front == (0, 0)


def test_the_first_word_about_a_size_counts() -> None:
    progress = progress_with((0, 0))
    progress.note_previous(1, 2)
    progress.note_previous(1, 1)
    assert progress.front == (0, 1)


@rule("Q-15")
def test_a_start_point_may_come_late() -> None:
    """Behind objects, and behind the final point."""
    progress = progress_with((5, 7), (5, 8))
    progress.finish(Position(5, 9))
    assert not progress.complete
    progress.skip_to(Position(5, 7))
    assert progress.complete
    assert Position(0, 0) in progress
    progress.skip_to(Position(2, 0))
    assert progress.front == (5, 9)


@rule("Q-19")
def test_a_media_without_objects_is_complete() -> None:
    progress = MediaProgress()
    assert not progress.complete
    progress.finish(Position(0, 0))
    assert progress.complete


def test_of_several_final_points_the_furthest_counts() -> None:
    progress = progress_with((0, 0))
    for final in ((0, 1), (0, 2), (0, 1)):
        progress.finish(Position(*final))
    assert not progress.complete
    assert progress.missing(Position(0, 2)) == [PositionRange(Position(0, 1), Position(0, 2))]


def test_the_last_number_of_a_group_is_followed_by_the_next_group() -> None:
    progress = MediaProgress(Position(0, MAX_ID))
    progress.add(Position(0, MAX_ID))
    assert progress.front == (1, 0)
    ahead = progress_with((0, MAX_ID))
    ahead.note_previous(1, 5)
    assert ahead.front == (0, 0)


@pytest.mark.parametrize("what", ["objects", "groups"])
def test_scattered_positions_cost_bounded_memory(what: str) -> None:
    """The oldest hole is given up for each more, and told."""
    progress = MediaProgress()
    given_up = 0
    tracemalloc.start()
    try:
        for number in range(1, 5 * RANGES):
            front = progress.front
            if what == "groups":
                hole = progress.note_previous(2 * number, 1)
            else:
                hole = progress.add(Position(0, 2 * number))
            if hole is not None:
                given_up += 1
                assert hole.start == front < hole.stop < progress.front
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert given_up == 4 * RANGES - 1
    assert used <= progress.size + RECENT_GROUPS * RANGE_BYTES
    assert progress.size <= (RANGES + RECENT_GROUPS) * RANGE_BYTES


def test_objects_beyond_the_size_of_their_group_cost_bounded_memory() -> None:
    """The holes between the lowest are given up, and told."""
    progress = MediaProgress()
    progress.note_previous(1, 0)
    given_up = [progress.add(Position(0, object)) for object in range(0, 4 * RANGES, 2)]
    assert progress.size <= (RANGES + RECENT_GROUPS) * RANGE_BYTES
    assert given_up[: RANGES + 1] == [None] * (RANGES + 1)
    assert given_up[RANGES + 1 :] == [
        PositionRange(Position(0, object), Position(0, object + 1))
        for object in range(1, 2 * RANGES - 2, 2)
    ]
    assert all(Position(0, object) in progress for object in range(0, 4 * RANGES, 2))
    assert Position(0, 2 * RANGES + 1) not in progress


def test_sizes_of_groups_long_ago_are_forgotten() -> None:
    progress = MediaProgress()
    for group in range(1, RECENT_GROUPS + 2):
        progress.note_previous(group, 0)
        progress.add(Position(group - 1, 0))
    assert Position(0, 1) in progress
    assert Position(1, 1) not in progress
    assert progress.size <= 2 * RECENT_GROUPS * RANGE_BYTES
