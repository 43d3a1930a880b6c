"""Which sequences are stored: exact within the bounds, and across every kind of opening."""

from __future__ import annotations

import random
from pathlib import Path

from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool import SPARSE, ContentSum, SequenceMark, SpoolSettings
from aqueduct_core.spool.format.sequences import MAX_SUMS, Sequences
from tests.core.spool.rows import batch, open_spool


def test_marks_are_what_was_added_after_every_reopening(tmp_path: Path) -> None:
    order = random.Random(5)
    truth: dict[tuple[str, str], RangeSet] = {}
    spool = open_spool(tmp_path, segment_bytes=4000)
    for step in range(120):
        end = spool.ends()[0]
        marks = []
        for _ in range(order.randrange(4)):
            first = order.randrange(1000)
            marks.append(
                SequenceMark(
                    f'pröducer "{order.randrange(3)}" \x00',
                    f'{{"crc32":"{order.randrange(2)}',
                    first,
                    first + order.randrange(1, 9),
                )
            )
        for producer, channel, first, stop in marks:
            truth.setdefault((producer, channel), RangeSet()).add(first, stop)
        spool.append(0, batch(0, end, end + 1), marks)
        for (producer, channel), expected in truth.items():
            assert spool.sequences.seen(producer, channel) == expected
        assert spool.settle(5)
        if step % 10 == 9:
            spool.close()
            if step % 20 == 19:
                (tmp_path / "catalog.sqlite").unlink()
            spool = open_spool(tmp_path, segment_bytes=4000)
            for (producer, channel), expected in truth.items():
                assert spool.sequences.seen(producer, channel) == expected
    spool.close()


def test_an_unknown_channel_has_seen_nothing(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        assert list(spool.sequences.seen("nobody", "nothing")) == []


def test_the_pair_not_used_for_longest_is_forgotten() -> None:
    marks = Sequences(SpoolSettings(max_tracks=3))
    for name in "abc":
        marks.add([SequenceMark("p", name, 0, 5)])
    marks.seen("p", "a")
    marks.add([SequenceMark("p", "d", 0, 5)])
    assert [entry[1] for entry in marks.snapshot() if entry[2]] == ["c", "a", "d"]
    assert marks.forgotten == 1
    assert list(marks.seen("p", "b")) == []
    assert [channel for channel, _ in marks.seen_of("p")] == ["a", "c", "d"]
    assert (marks.floor("p", "a"), marks.floor("p", "b")) == (0, 5)


def test_the_lowest_ranges_are_forgotten_first() -> None:
    marks = Sequences(SpoolSettings(max_ranges=2))
    marks.add([SequenceMark("p", "c", n, n + 1) for n in (0, 10, 20, 30)])
    assert list(marks.seen("p", "c")) == [(20, 21), (30, 31)]
    assert marks.forgotten == 2
    assert marks.floor("p", "c") == 11


def test_all_ranges_together_are_bounded() -> None:
    marks = Sequences(SpoolSettings(max_total_ranges=10))
    for channel in range(6):
        marks.add([SequenceMark("p", str(channel), n, n + 1) for n in range(0, 8, 2)])
    kept = [entry for entry in marks.snapshot() if entry[2]]
    assert [entry[1] for entry in kept] == ["4", "5"]
    assert sum(len(entry[2]) // 2 for entry in kept) <= 10
    assert marks.forgotten == 16


def test_a_snapshot_gives_the_same_marks_in_the_same_order() -> None:
    marks = Sequences(SpoolSettings())
    marks.add(
        [SequenceMark("p", "a", 0, 3), SequenceMark("p", "b", 7, 9), SequenceMark("p", "a", 5, 6)]
    )
    again = Sequences(SpoolSettings())
    again.add([SequenceMark("x", "y", 0, 1)])
    again.load(marks.snapshot())
    assert again.snapshot() == marks.snapshot() == [("p", "b", [7, 9]), ("p", "a", [0, 3, 5, 6])]
    assert again.forgotten == 0


def test_a_snapshot_keeps_the_floors_of_what_was_forgotten() -> None:
    settings = SpoolSettings(max_tracks=2, max_ranges=2)
    marks = Sequences(settings)
    for name in "xyz":
        marks.add([SequenceMark("q", name, 0, 9)])
    marks.add([SequenceMark("p", "a", n, n + 1) for n in (0, 10, 20)])
    marks.add([SequenceMark("p", "b", 0, 5)])
    again = Sequences(settings)
    again.load(marks.snapshot())
    assert again.snapshot() == marks.snapshot()
    assert (again.floor("p", "a"), again.floor("p", "b")) == (1, 0)
    assert again.floor("q", "z") == 9
    assert list(again.seen_of("q")) == []
    again.add([SequenceMark("r", str(n), 0, 1) for n in range(5)])
    assert again.floor("q", "x") == 0  # only so many floors are kept, the newest ones


def test_a_snapshot_without_floors_is_read() -> None:
    marks = Sequences(SpoolSettings())
    marks.load([["p", "c", [0, 3, 5, 6]]])
    assert list(marks.seen("p", "c")) == [(0, 3), (5, 6)]
    assert marks.floor("p", "c") == 0


def sparse(name: str, numbers: NumberSet) -> list[SequenceMark]:
    return [SequenceMark("p", name + SPARSE, *entry) for entry in numbers.entries()]


def test_sparse_channels_are_remembered_number_by_number(tmp_path: Path) -> None:
    """Also across openings, with and without the catalog, and from the heads of segments."""
    order, truth = random.Random(3), NumberSet()
    spool = open_spool(tmp_path, segment_bytes=4000)
    for step in range(40):
        numbers = NumberSet()
        for _ in range(50):
            number = order.randrange(5000)
            numbers.add(number, number + 1)
            truth.add(number, number + 1)
        end = spool.ends()[0]
        spool.append(0, batch(0, end, end + 1), sparse("c", numbers))
        assert spool.sequences.rows("p", "c" + SPARSE) == truth
        assert spool.settle(5)
        if step % 10 == 9:
            spool.close()
            if step % 20 == 19:
                (tmp_path / "catalog.sqlite").unlink()
            spool = open_spool(tmp_path, segment_bytes=4000)
            assert spool.sequences.rows("p", "c" + SPARSE) == truth
    assert list(spool.sequences.seen("p", "c")) == []
    assert list(spool.sequences.seen_of("p")) == []
    spool.close()


def test_sparse_channels_forget_the_lowest_beyond_their_share() -> None:
    marks = Sequences(SpoolSettings(max_ranges=2, max_total_ranges=64))
    for channel in "ab":
        for block in range(20):
            marks.add([SequenceMark("p", channel + SPARSE, 1000 * block, 1000 * block + 1)])
        assert len(marks.rows("p", channel + SPARSE)) == 14  # room for 16, an eighth goes at once
    assert 5000 not in marks.rows("p", "a" + SPARSE)
    assert 6000 in marks.rows("p", "a" + SPARSE)
    assert 5000 < marks.floor("p", "a" + SPARSE) <= 6000
    assert marks.forgotten == 12
    for channel in "cd":
        marks.add([SequenceMark("p", channel + SPARSE, 0, 1)])
    marks.add([SequenceMark("p", "a" + SPARSE, 30_000, 30_001)])
    assert len(marks.rows("p", "a" + SPARSE)) == 7
    again = Sequences(SpoolSettings(max_ranges=2, max_total_ranges=64))
    again.load(marks.snapshot())
    assert again.snapshot() == marks.snapshot()


LINE = (0, 1 << 62)


def added(
    marks: Sequences, first: int, stop: int, total: int, space: tuple[int, int] = LINE
) -> None:
    marks.add(
        [SequenceMark("p", "c", first, stop)], [ContentSum("p", "c", *space, stop - first, total)]
    )


def known(marks: Sequences, space: tuple[int, int] = LINE) -> tuple[int, int | None]:
    return marks.content("p", "c", *space)[4:]


def test_sums_add_up_over_reopenings_of_every_kind(tmp_path: Path) -> None:
    order = random.Random(7)
    truth: dict[str, tuple[int, int]] = {}
    ends: dict[str, int] = {}
    spool = open_spool(tmp_path, segment_bytes=3000)
    for step in range(60):
        end = spool.ends()[0]
        name = order.choice("abc")
        first, count = ends.get(name, 0) + order.randrange(2), order.randrange(1, 9)
        total = order.getrandbits(64)
        ends[name] = first + count
        messages, before = truth.get(name, (0, 0))
        truth[name] = messages + count, (before + total) % (1 << 64)
        spool.append(
            0,
            batch(0, end, end + 1),
            [SequenceMark("p", name, first, first + count)],
            [ContentSum("p", name, *LINE, count, total)],
        )
        assert spool.settle(5)
        if step % 7 == 6:
            spool.close()
            if step % 2:
                (tmp_path / "catalog.sqlite").unlink()
            spool = open_spool(tmp_path, segment_bytes=3000)
        for channel, expected in truth.items():
            assert spool.sequences.content("p", channel, *LINE)[4:] == expected
    spool.close()


def test_a_sum_is_known_where_it_counts_all_that_is_stored() -> None:
    marks = Sequences(SpoolSettings())
    assert known(marks) == (0, None)
    added(marks, 0, 3, 30)
    assert known(marks) == (3, 30)
    assert known(marks, (0, 100)) == (3, None)
    marks.add([SequenceMark("p", "c", 3, 5)])  # of an earlier release
    assert known(marks) == (5, None)
    added(marks, 5, 6, 1)
    assert known(marks) == (6, None)


def test_a_space_that_is_done_has_the_sum_of_what_was_stored() -> None:
    """A floor is a mark over all that went before: what was there is known, and cannot grow."""
    marks = Sequences(SpoolSettings())
    added(marks, 100, 120, 5, (100, 200))
    added(marks, 200, 210, 6, (200, 300))
    assert known(marks, (100, 200)) == (20, 5)
    marks.add([SequenceMark("p", "c", 0, 200)])
    for _ in range(2):
        assert known(marks, (100, 200)) == (20, 5)
        assert known(marks, (200, 300)) == (10, 6)
        assert list(marks.closed("p", "c")) == [(100, 200)]
        marks.load(marks.snapshot(), marks.sums())
        added(marks, 120, 121, 5, (100, 200))


def test_what_is_stored_in_the_group_that_closes_its_space() -> None:
    """The last rows of a space and the floor of the next one become true with one record."""
    marks = Sequences(SpoolSettings())
    added(marks, 100, 110, 1, (100, 200))
    marks.add(
        [SequenceMark("p", "c", 0, 205)],
        [
            ContentSum("p", "c", 100, 200, 7, 20),
            ContentSum("p", "c", 200, 300, 5, 300),
        ],
    )
    assert known(marks, (100, 200)) == (17, 21)
    assert known(marks, (200, 300)) == (5, 300)
    # the other way round: all of a space in that group
    marks.add(
        [SequenceMark("p", "d", 0, 205)],
        [ContentSum("p", "d", 100, 200, 3, 9), ContentSum("p", "d", 200, 300, 5, 1)],
    )
    assert marks.content("p", "d", 100, 200)[4:] == (3, 9)


def test_of_what_was_not_summed_nothing_is_known_when_its_space_is_done() -> None:
    marks = Sequences(SpoolSettings())
    marks.add([SequenceMark("p", "c", 100, 103)])  # of an earlier release
    added(marks, 103, 110, 1, (100, 200))
    marks.add([SequenceMark("p", "c", 0, 200)])
    assert known(marks, (100, 200)) == (100, None)


def test_the_last_spaces_that_are_done_are_remembered() -> None:
    marks = Sequences(SpoolSettings(max_tracks=1))
    for space in range(100, 1_000, 100):
        added(marks, space, space + 9, space, (space, space + 100))
        marks.add([SequenceMark("p", "c", 0, space + 100)])
    kept = sorted(marks.closed("p", "c"))
    assert kept == [(space, space + 100) for space in (600, 700, 800, 900)]
    marks.add([SequenceMark("p", "d", 0, 1)])  # takes its place
    assert marks.sums() == []
    added(marks, 900, 901, 5, (900, 1000))
    assert known(marks, (900, 1000)) == (1, None)


def test_of_what_was_forgotten_no_sum_is_known() -> None:
    settings = SpoolSettings(max_ranges=2, max_tracks=2)
    marks = Sequences(settings)
    for first in (0, 10, 20):
        added(marks, first, first + 1, first)
    assert known(marks) == (2, None)
    again = Sequences(settings)
    again.load(marks.snapshot(), marks.sums())
    assert known(again) == (2, None)
    added(again, 0, 1, 0)
    assert known(again)[1] is None
    for name in "xy":
        again.add([SequenceMark("p", name, 0, 5)])
    assert again.sums() == []
    added(again, 0, 30, 7)
    assert known(again) == (30, None)
    # a space behind all that was forgotten is known
    added(again, 100, 101, 9, (100, 200))
    assert known(again, (100, 200)) == (1, 9)


def test_smaller_bounds_make_sums_unknown() -> None:
    marks = Sequences(SpoolSettings())
    for first in (0, 10, 20):
        added(marks, first, first + 1, first)
    again = Sequences(SpoolSettings(max_ranges=2))
    again.load(marks.snapshot(), marks.sums())
    assert known(again) == (2, None)


def test_sums_of_runs_one_behind_the_other() -> None:
    """Each run has its own; those of early runs become one, and all together they are the whole."""
    marks = Sequences(SpoolSettings())
    most = 1 << 62
    for run in range(40):
        first = 10 * run
        for at in (first, first + 5):
            add = ContentSum("p", "c", first, most, 5, 1000 + at)
            marks.add([SequenceMark("p", "c", at, at + 5)], [add])
    assert len(marks.sums()) == MAX_SUMS
    again = Sequences(SpoolSettings())
    again.load(marks.snapshot(), marks.sums())
    for each in (marks, again):
        assert each.content("p", "c", 390, most)[-2:] == (10, 2 * 1390 + 5)
        assert each.content("p", "c", 0, most)[-2:] == (400, sum(2005 + 20 * r for r in range(40)))
        assert each.content("p", "c", 395, most).total is None
        assert each.content("p", "c", 50, most).total is None
