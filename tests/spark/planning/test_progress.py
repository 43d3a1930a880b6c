"""Planning is pure functions, shown by tables of cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aqueduct_core.errors import DataLoss, InvalidOption
from aqueduct_core.flight.status import CursorReset, IntakeStatus
from aqueduct_spark.model.offsets import DataRange, SpoolPosition, StreamOffset
from aqueduct_spark.options.starting import AtTime, Earliest, Latest, Specific, Starting
from aqueduct_spark.planning.progress import (
    ProgressTerms,
    Survey,
    Waiting,
    clip,
    commit_is_due,
    granted,
    passed_over,
    reaches,
    survey,
)
from aqueduct_spark.planning.ranges import data_ranges
from aqueduct_spark.planning.views import Reader, Seen, see

TERMS = ProgressTerms(
    intakes=1, logs=2, view="messages", starting=Earliest(), fail_on_data_loss=True
)


def status(
    ends: tuple[int, ...],
    starts: tuple[int, ...] | None = None,
    *,
    id: str = "a",
    epoch: int = 1,
    at: str = "h:1",
    committed: tuple[int, ...] | None = None,
) -> Seen:
    nothing = (0,) * len(ends)
    return Seen(id, epoch, at, starts or nothing, ends, committed or nothing, 0, 99)


def all_of(found: Survey) -> StreamOffset:
    """The offset with everything that waits."""
    return granted(found.entered, found.waiting, [one.rows for one in found.waiting])


def position(*to: int, id: str = "a", epoch: int = 1, at: str = "h:1") -> SpoolPosition:
    return SpoolPosition(id, at, epoch, to)


def offset(*to: int, launch: int = 1, tick: int = 0) -> StreamOffset:
    return StreamOffset({0: position(*to)}, launch, tick)


# --- views ----------------------------------------------------------------------------------------

STATUS = IntakeStatus(
    "a",
    3,
    ends=(5, 7),
    starts=(1, 2),
    committed={"query": (4, 4)},
    listen="h:0",
    flight="h:1",
    pid=1,
    bytes=99,
    events=(10, 20),
    events_committed={"events": 15},
)


@pytest.mark.parametrize(
    ("reader", "seen"),
    [
        (Reader("query"), Seen("a", 3, "h:1", (1, 2), (5, 7), (4, 4), 0, 99)),
        (Reader("other"), Seen("a", 3, "h:1", (1, 2), (5, 7), (0, 0), 0, 99)),
        (Reader("events", "events"), Seen("a", 3, "h:1", (10,), (20,), (15,), 2, 99)),
        (Reader("other", "events"), Seen("a", 3, "h:1", (10,), (20,), (0,), 2, 99)),
    ],
)
def test_a_status_is_seen_as_the_view_has_it(reader: Reader, seen: Seen) -> None:
    assert see(STATUS, reader) == seen


# --- progress -------------------------------------------------------------------------------------


def test_a_new_query_misses_the_intake_then_enters_it_then_reads() -> None:
    first = survey(StreamOffset(launch=1), {}, TERMS)
    assert first == Survey(StreamOffset(launch=1), (), missing=(0,))
    entered = survey(first.entered, {0: status((5, 7))}, TERMS)
    assert entered == Survey(offset(0, 0), (), ())
    found = survey(entered.entered, {0: status((5, 7))}, TERMS)
    assert found.entered == offset(0, 0)
    assert found.waiting == (Waiting(0, 0, 0, 5), Waiting(0, 1, 0, 7))
    assert all_of(found) == offset(5, 7)
    assert granted(found.entered, found.waiting, [2, 0]) == offset(2, 0)


def test_nothing_new_is_the_same_offset() -> None:
    assert survey(offset(5, 7), {0: status((5, 7))}, TERMS) == Survey(offset(5, 7), (), ())


@pytest.mark.parametrize(
    ("starting", "entered"),
    [
        (Earliest(), (2, 3)),
        (Latest(), (5, 7)),
        (Specific({0: (-2, -1)}), (2, 7)),
        (Specific({0: (4, 3)}), (4, 3)),
        (AtTime(17), (4, 9)),  # stored since the intake was seen: it is read later
    ],
)
def test_starting_positions_of_a_new_query(starting: Starting, entered: tuple[int, ...]) -> None:
    terms = replace(TERMS, starting=starting)
    seen = {0: status((5, 7), (2, 3))}
    found = survey(StreamOffset(launch=1), seen, terms, located={0: (4, 9)})
    assert found == Survey(offset(*entered), (), ())


def test_starting_offsets_have_to_fit_the_spool() -> None:
    terms = replace(TERMS, logs=None, starting=Specific({0: (4,)}))
    with pytest.raises(InvalidOption, match="startingOffsets"):
        survey(StreamOffset(), {0: status((5, 7))}, terms)


def test_a_missing_intake_is_launched_while_others_go_on() -> None:
    terms = replace(TERMS, intakes=2)
    start = StreamOffset({0: position(1, 1), 1: position(2, 2, id="b")}, launch=1)
    found = survey(start, {0: status((4, 4))}, terms)
    assert found.missing == (1,)
    assert all_of(found) == StreamOffset({0: position(4, 4), 1: position(2, 2, id="b")}, launch=1)


def test_an_intake_that_moved_is_entered_anew_with_what_it_has() -> None:
    found = survey(offset(5, 7), {0: status((6, 7), epoch=2, at="h:9")}, TERMS)
    assert all_of(found).spool[0] == position(6, 7, epoch=2, at="h:9")


def test_logs_of_all_intakes_wait_in_order() -> None:
    terms = replace(TERMS, intakes=2)
    start = StreamOffset({0: position(0, 0), 1: position(0, 0, id="b")}, launch=1)
    seen = {1: status((0, 10), id="b"), 0: status((30, 0))}
    assert survey(start, seen, terms).waiting == (Waiting(0, 0, 0, 30), Waiting(1, 1, 0, 10))


def test_a_ceiling_holds_back_what_came_later() -> None:
    start, seen = offset(0, 0), {0: status((10, 10))}
    end = all_of(survey(start, seen, TERMS, ceiling={0: (4, 0)}))
    assert end == offset(4, 0)
    assert survey(end, seen, TERMS, ceiling={0: (4, 0)}) == Survey(end, (), ())
    assert clip((3, 9), (4, 5)) == (3, 5)


LOSSES = [
    (status((9, 9), id="other"), "SPOOL_REPLACED", position(0, 0, id="other")),
    (status((9, 9), (6, 0)), "RANGE_GONE", position(9, 9)),
    (status((3, 9)), "OFFSET_AHEAD", position(3, 9)),
]


@pytest.mark.parametrize(("seen", "subclass", "behind"), LOSSES)
def test_losses_stop_the_query_or_are_told_and_passed(
    seen: Seen, subclass: str, behind: SpoolPosition
) -> None:
    with pytest.raises(DataLoss) as lost:
        survey(offset(5, 7), {0: seen}, TERMS)
    assert lost.value.subclass == subclass
    assert "\n" not in str(lost.value)
    lenient = replace(TERMS, fail_on_data_loss=False)
    if subclass == "SPOOL_REPLACED":  # only who names it lets it go
        for terms in (lenient, replace(lenient, lost_spools=frozenset({"other"}))):
            with pytest.raises(DataLoss, match="lostSpools=a"):
                survey(offset(5, 7), {0: seen}, terms)
        lenient = replace(TERMS, lost_spools=frozenset({"a"}))
    found = survey(offset(5, 7), {0: seen}, lenient)
    assert [loss.subclass for loss in found.losses] == [subclass]
    assert all_of(found).spool[0] == behind


def test_the_loss_of_each_partition_is_told() -> None:
    lenient = replace(TERMS, fail_on_data_loss=False)
    found = survey(offset(5, 7), {0: status((9, 4), (6, 0))}, lenient)
    assert found.entered.spool[0] == position(6, 4)
    told = [(loss.subclass, loss.what.split(" of intake")[0]) for loss in found.losses]
    assert told == [
        ("RANGE_GONE", "offset 5 of partition 0"),
        ("OFFSET_AHEAD", "offset 7 of partition 1"),
    ]


@pytest.mark.parametrize(
    ("start", "committed", "passed"),
    [
        (StreamOffset(launch=1), (0, 0), ()),
        (StreamOffset(launch=1), (2, 3), ()),
        (StreamOffset(launch=1), (2, 4), (0,)),
        (offset(2, 3), (9, 9), ()),
    ],
)
def test_a_new_query_is_not_bound_by_the_cursor_of_an_old_one(
    start: StreamOffset, committed: tuple[int, ...], passed: tuple[int, ...]
) -> None:
    seen = {0: status((9, 9), (2, 3), committed=committed)}
    assert passed_over(start, survey(start, seen, TERMS).entered, seen) == passed


def test_truncation_behind_the_position_is_no_loss() -> None:
    assert survey(offset(5, 7), {0: status((5, 7), (5, 7))}, TERMS).losses == ()


@pytest.mark.parametrize(
    ("terms", "seen", "words"),
    [
        (replace(TERMS, logs=3), {}, "'partitionsPerIntake' is '3', but the checkpoint"),
        (TERMS, {0: status((1, 1, 1))}, "'partitionsPerIntake' is '2', but spool a has 3"),
        (replace(TERMS, logs=1, view="events"), {}, "'view' is 'events'.* the checkpoint"),
        (replace(TERMS, logs=None), {0: status((1,))}, "'view' is 'messages'.* the checkpoint"),
    ],
)
def test_options_must_fit_the_checkpoint(
    terms: ProgressTerms, seen: dict[int, Seen], words: str
) -> None:
    with pytest.raises(InvalidOption, match=words):
        survey(offset(1, 1), seen, terms)


@pytest.mark.parametrize(("logs", "option"), [(2, "'numIntakes'"), (None, "'intakes'")])
def test_fewer_intakes_than_before_are_refused(logs: int | None, option: str) -> None:
    start = StreamOffset({0: position(1, 1), 1: position(1, 1, id="b")}, launch=1)
    with pytest.raises(InvalidOption, match=f"{option} gives 1, but .* with 2"):
        survey(start, {}, replace(TERMS, logs=logs))


def test_more_intakes_than_before_are_missing() -> None:
    found = survey(offset(5, 7), {0: status((5, 7))}, replace(TERMS, intakes=2))
    assert found.missing == (1,)


def test_a_view_of_one_log() -> None:
    terms = replace(TERMS, logs=1, view="events")
    found = survey(offset(3), {0: Seen("a", 1, "h:1", (1,), (9,), (1,), 2, 99)}, terms)
    assert all_of(found) == offset(9)


def test_the_reach_is_what_could_be_read() -> None:
    assert reaches(offset(1, 1), {0: status((8, 9))}) == offset(8, 9)


# --- ranges ---------------------------------------------------------------------------------------


def test_ranges_between_two_offsets() -> None:
    start = StreamOffset({0: position(1, 5), 1: position(0, 0, id="b", at="h:2")}, 1)
    end = StreamOffset({0: position(4, 5), 1: position(0, 2, id="b", at="h:3")}, 1)
    assert data_ranges(start, end, {}) == [
        DataRange(0, "a", "h:1", 0, 1, 4),
        DataRange(1, "b", "h:3", 1, 0, 2),
    ]


def test_ranges_name_the_logs_of_their_view() -> None:
    assert data_ranges(offset(3), offset(9), {0: 2}) == [DataRange(0, "a", "h:1", 2, 3, 9)]


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
    assert data_ranges(start, end, {}) == []


# --- ticks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "due"),
    [(None, True), ((0, 0), True), ((5, 6), True), ((5, 7), False), ((9, 9), False)],
)
def test_a_tick_is_due_while_a_commit_is_outstanding(
    committed: tuple[int, ...] | None, due: bool
) -> None:
    seen = {0: status((5, 7), committed=committed)}
    assert commit_is_due(offset(5, 7), seen, None) is due


def test_one_tick_for_each_position() -> None:
    seen = {0: status((5, 7))}
    assert not commit_is_due(offset(5, 7, tick=1), seen, offset(5, 7))
    assert commit_is_due(offset(5, 8), seen, offset(5, 7))


def test_nothing_read_needs_no_tick() -> None:
    assert not commit_is_due(offset(0, 0), {0: status((0, 0))}, None)
    assert not commit_is_due(StreamOffset(launch=1), {}, None)


def test_an_intake_that_is_away_needs_no_tick() -> None:
    assert not commit_is_due(offset(5, 7), {}, None)


# --- resets ---------------------------------------------------------------------------------------


def reset(*to: int, id: str = "r2") -> CursorReset:
    return CursorReset(id, to, at=0.0)


def at_reset(*to: int, reset: str = "", id: str = "a") -> StreamOffset:
    return StreamOffset({0: replace(position(*to, id=id), reset=reset)}, 1, 0)


@pytest.mark.parametrize(
    ("start", "seen", "then"),
    [
        # known by its id: it is obeyed, and not again
        (at_reset(9, 9), reset(3, 0), at_reset(3, 0, reset="r2")),
        (at_reset(9, 9, reset="r1"), reset(3, 0), at_reset(3, 0, reset="r2")),
        (at_reset(3, 0, reset="r2"), reset(3, 0), at_reset(20, 20, reset="r2")),
        # it is over: the intake has forgotten it, the checkpoint has not
        (at_reset(9, 9, reset="r2"), None, at_reset(20, 20, reset="r2")),
        # a query that is new, and begins with the first row else
        (StreamOffset(launch=1), reset(7, 8), at_reset(7, 8, reset="r2")),
        # forward too
        (at_reset(9, 9), reset(20, 20), at_reset(20, 20, reset="r2")),
    ],
)
def test_a_query_that_was_reset_goes_on_there(
    start: StreamOffset, seen: CursorReset | None, then: StreamOffset
) -> None:
    found = survey(start, {0: replace(status((20, 20)), reset=seen)}, TERMS)
    assert all_of(found) == then
    entered = bool(seen) and start.spool.get(0, position(0)).reset != "r2"
    assert bool(found.waiting) is not entered
    assert bool(data_ranges(start, all_of(found), {})) is not entered


def test_a_reset_to_rows_that_are_gone_by_now_is_a_loss() -> None:
    seen = replace(status((20, 20), starts=(5, 0)), reset=reset(3, 0))
    with pytest.raises(DataLoss, match="RANGE_GONE"):
        survey(at_reset(9, 9), {0: seen}, TERMS)


def test_the_reset_of_another_spool_waits_until_the_query_has_changed_to_it() -> None:
    seen = replace(status((20, 20), id="b"), reset=reset(3, 0))
    passing = replace(TERMS, lost_spools=frozenset(["a"]))
    entered = survey(at_reset(9, 9), {0: seen}, passing).entered
    assert entered == at_reset(0, 0, id="b")
    assert survey(entered, {0: seen}, passing).entered == at_reset(3, 0, id="b", reset="r2")


def test_progress_reports_keep_the_last_reset() -> None:
    assert reaches(at_reset(3, 0, reset="r2"), {0: status((20, 20))}) == at_reset(
        20, 20, reset="r2"
    )
