"""Planning is pure functions, shown by tables of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.errors import DataLoss, InvalidOption
from aqueduct_core.flight.tickets import IntakeStatus
from aqueduct_spark.model.offsets import SpoolPosition, StreamOffset
from aqueduct_spark.model.starting import Earliest, Latest, Specific, Starting
from aqueduct_spark.planning.limits import apportion
from aqueduct_spark.planning.progress import Terms, advance, clip, reaches
from aqueduct_spark.planning.ranges import DataRange, data_ranges
from aqueduct_spark.planning.ticks import commit_is_due

TERMS = Terms(intakes=1, partitions=2, starting=Earliest(), fail_on_data_loss=True)


def status(
    ends: tuple[int, ...],
    starts: tuple[int, ...] = (0, 0),
    *,
    id: str = "a",
    epoch: int = 1,
    at: str = "h:1",
    committed: tuple[int, ...] | None = None,
) -> IntakeStatus:
    cursors = {} if committed is None else {"query": committed}
    return IntakeStatus(id, epoch, ends, starts, cursors, "h:0", at, 1)


def position(*to: int, id: str = "a", epoch: int = 1, at: str = "h:1") -> SpoolPosition:
    return SpoolPosition(id, at, epoch, to)


def offset(*to: int, launch: int = 1, tick: int = 0) -> StreamOffset:
    return StreamOffset({0: position(*to)}, launch, tick)


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("available", "limit", "shares"),
    [
        ([], 5, []),
        ([0, 0], 5, [0, 0]),
        ([3, 4], None, [3, 4]),
        ([3, 4], 7, [3, 4]),
        ([3, 4], 100, [3, 4]),
        ([100, 100], 10, [5, 5]),
        ([1000, 1], 10, [9, 1]),
        ([1_000_000, 1], 2, [1, 1]),
        ([300, 100], 40, [30, 10]),
        ([0, 50, 0], 7, [0, 7, 0]),
        ([5, 5, 5], 1, [1, 1, 1]),  # a soft limit: each partition with data gives one
        ([7, 7, 7], 10, [4, 3, 3]),
    ],
)
def test_a_limit_is_shared_in_proportion(
    available: list[int], limit: int | None, shares: list[int]
) -> None:
    assert apportion(available, limit) == shares


@given(st.lists(st.integers(0, 10**12), max_size=20), st.integers(1, 10**9))
def test_shares_keep_the_limit_and_starve_nobody(available: list[int], limit: int) -> None:
    shares = apportion(available, limit)
    assert all(share <= count for share, count in zip(shares, available, strict=True))
    assert all(share > 0 for share, count in zip(shares, available, strict=True) if count)
    waiting = sum(1 for count in available if count)
    assert sum(shares) == min(sum(available), max(limit, waiting))


# --- progress -------------------------------------------------------------------------------------


def test_a_new_query_launches_then_enters_the_intake_then_reads() -> None:
    first = advance(StreamOffset(), {}, TERMS).end
    assert first == StreamOffset(launch=1)
    entered = advance(first, {0: status((5, 7))}, TERMS).end
    assert entered == offset(0, 0)
    assert advance(entered, {0: status((5, 7))}, TERMS).end == offset(5, 7)


def test_nothing_new_is_the_same_offset() -> None:
    assert advance(offset(5, 7), {0: status((5, 7))}, TERMS).end == offset(5, 7)


@pytest.mark.parametrize(
    ("starting", "entered"),
    [
        (Earliest(), (2, 3)),
        (Latest(), (5, 7)),
        (Specific({0: (-2, -1)}), (2, 7)),
        (Specific({0: (4, 3)}), (4, 3)),
    ],
)
def test_starting_positions_of_a_new_query(starting: Starting, entered: tuple[int, ...]) -> None:
    terms = replace(TERMS, starting=starting)
    step = advance(StreamOffset(launch=1), {0: status((5, 7), (2, 3))}, terms)
    assert step.end == offset(*entered)


def test_a_missing_intake_is_launched_while_others_go_on() -> None:
    terms = replace(TERMS, intakes=2)
    start = StreamOffset({0: position(1, 1), 1: position(2, 2, id="b")}, launch=1)
    step = advance(start, {0: status((4, 4))}, terms)
    assert step.end == StreamOffset({0: position(4, 4), 1: position(2, 2, id="b")}, launch=2)


def test_an_intake_that_moved_is_entered_anew_with_what_it_has() -> None:
    step = advance(offset(5, 7), {0: status((6, 7), epoch=2, at="h:9")}, TERMS)
    assert step.end.spool[0] == position(6, 7, epoch=2, at="h:9")


def test_a_limit_counts_over_all_intakes() -> None:
    terms = replace(TERMS, intakes=2)
    start = StreamOffset({0: position(0, 0), 1: position(0, 0, id="b")}, launch=1)
    seen = {0: status((30, 0)), 1: status((10, 0), id="b")}
    end = advance(start, seen, terms, limit=20).end
    assert end.spool[0].to == (15, 0)
    assert end.spool[1].to == (5, 0)


def test_a_ceiling_holds_back_what_came_later() -> None:
    start, seen = offset(0, 0), {0: status((10, 10))}
    end = advance(start, seen, TERMS, ceiling={0: (4, 0)}).end
    assert end == offset(4, 0)
    assert advance(end, seen, TERMS, ceiling={0: (4, 0)}).end == end
    assert clip((3, 9), (4, 5)) == (3, 5)


LOSSES = [
    (status((9, 9), id="other"), "SPOOL_REPLACED", position(0, 0, id="other")),
    (status((9, 9), (6, 0)), "RANGE_GONE", position(9, 9)),
    (status((3, 9)), "OFFSET_AHEAD", position(3, 9)),
]


@pytest.mark.parametrize(("seen", "subclass", "behind"), LOSSES)
def test_losses_stop_the_query_or_are_told_and_passed(
    seen: IntakeStatus, subclass: str, behind: SpoolPosition
) -> None:
    with pytest.raises(DataLoss) as lost:
        advance(offset(5, 7), {0: seen}, TERMS)
    assert lost.value.subclass == subclass
    assert "\n" not in str(lost.value)
    step = advance(offset(5, 7), {0: seen}, replace(TERMS, fail_on_data_loss=False))
    assert [loss.subclass for loss in step.losses] == [subclass]
    assert step.end.spool[0] == behind


def test_truncation_behind_the_position_is_no_loss() -> None:
    assert advance(offset(5, 7), {0: status((5, 7), (5, 7))}, TERMS).losses == ()


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        (replace(TERMS, partitions=3), "'partitionsPerIntake' is '3'"),
        (replace(TERMS, intakes=1), "'numIntakes' is '1'"),
    ],
)
def test_options_must_fit_the_checkpoint(terms: Terms, words: str) -> None:
    start = StreamOffset({0: position(1, 1), 1: position(1, 1, id="b")}, launch=1)
    if terms.partitions == 3:
        start = offset(1, 1)
    with pytest.raises(InvalidOption, match=words):
        advance(start, {}, terms)


def test_more_intakes_than_before_are_launched() -> None:
    step = advance(offset(5, 7), {0: status((5, 7))}, replace(TERMS, intakes=2))
    assert step.end == offset(5, 7, launch=2)


def test_the_reach_is_what_could_be_read() -> None:
    assert reaches(offset(1, 1), {0: status((8, 9))}) == offset(8, 9)


# --- ranges ---------------------------------------------------------------------------------------


def test_ranges_between_two_offsets() -> None:
    start = StreamOffset({0: position(1, 5), 1: position(0, 0, id="b", at="h:2")}, 1)
    end = StreamOffset({0: position(4, 5), 1: position(0, 2, id="b", at="h:3")}, 1)
    assert data_ranges(start, end) == [
        DataRange(0, "a", "h:1", 0, 1, 4),
        DataRange(1, "b", "h:3", 1, 0, 2),
    ]


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (StreamOffset(), StreamOffset(launch=1)),
        (StreamOffset(launch=1), offset(3, 3)),
        (offset(3, 3), offset(3, 3, tick=1)),
        (offset(3, 3), StreamOffset({0: position(9, 9, id="new")}, 1)),
        (offset(3, 3), offset(2, 3)),
    ],
)
def test_batches_without_rows(start: StreamOffset, end: StreamOffset) -> None:
    assert data_ranges(start, end) == []


# --- ticks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "due"),
    [(None, True), ((0, 0), True), ((5, 6), True), ((5, 7), False), ((9, 9), False)],
)
def test_a_tick_is_due_while_a_commit_is_outstanding(
    committed: tuple[int, ...] | None, due: bool
) -> None:
    seen = {0: status((5, 7), committed=committed)}
    assert commit_is_due(offset(5, 7), seen, "query", None) is due


def test_one_tick_for_each_position() -> None:
    seen = {0: status((5, 7))}
    assert not commit_is_due(offset(5, 7, tick=1), seen, "query", offset(5, 7))
    assert commit_is_due(offset(5, 8), seen, "query", offset(5, 7))


def test_nothing_read_needs_no_tick() -> None:
    assert not commit_is_due(offset(0, 0), {0: status((0, 0))}, "query", None)
    assert not commit_is_due(StreamOffset(launch=1), {}, "query", None)


def test_an_intake_that_is_away_needs_no_tick() -> None:
    assert not commit_is_due(offset(5, 7), {}, "query", None)
