"""Which sequences are stored: exact within the bounds, and across every kind of opening."""

from __future__ import annotations

import random
from pathlib import Path

from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool import Mark, SpoolSettings
from aqueduct_core.spool.marks import Marks
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
                Mark(
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
            assert spool.seen(producer, channel) == expected
        assert spool.settle(5)
        if step % 10 == 9:
            spool.close()
            if step % 20 == 19:
                (tmp_path / "catalog.sqlite").unlink()
            spool = open_spool(tmp_path, segment_bytes=4000)
            for (producer, channel), expected in truth.items():
                assert spool.seen(producer, channel) == expected
    spool.close()


def test_an_unknown_channel_has_seen_nothing(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        assert list(spool.seen("nobody", "nothing")) == []


def test_the_pair_not_used_for_longest_is_forgotten() -> None:
    marks = Marks(SpoolSettings(max_tracks=3))
    for name in "abc":
        marks.add([Mark("p", name, 0, 5)])
    marks.seen("p", "a")
    marks.add([Mark("p", "d", 0, 5)])
    assert [channel for _, channel, _ in marks.snapshot()] == ["c", "a", "d"]
    assert marks.forgotten == 1
    assert list(marks.seen("p", "b")) == []


def test_the_lowest_ranges_are_forgotten_first() -> None:
    marks = Marks(SpoolSettings(max_ranges=2))
    marks.add([Mark("p", "c", n, n + 1) for n in (0, 10, 20, 30)])
    assert list(marks.seen("p", "c")) == [(20, 21), (30, 31)]
    assert marks.forgotten == 2


def test_all_ranges_together_are_bounded() -> None:
    marks = Marks(SpoolSettings(max_total_ranges=10))
    for channel in range(6):
        marks.add([Mark("p", str(channel), n, n + 1) for n in range(0, 8, 2)])
    kept = marks.snapshot()
    assert [channel for _, channel, _ in kept] == ["4", "5"]
    assert sum(len(edges) // 2 for _, _, edges in kept) <= 10
    assert marks.forgotten == 16


def test_a_snapshot_gives_the_same_marks_in_the_same_order() -> None:
    marks = Marks(SpoolSettings())
    marks.add([Mark("p", "a", 0, 3), Mark("p", "b", 7, 9), Mark("p", "a", 5, 6)])
    again = Marks(SpoolSettings())
    again.add([Mark("x", "y", 0, 1)])
    again.load(marks.snapshot())
    assert again.snapshot() == marks.snapshot() == [("p", "b", [7, 9]), ("p", "a", [0, 3, 5, 6])]
    assert again.forgotten == 0
