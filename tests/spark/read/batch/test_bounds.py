"""Which rows a bounded read consists of: its bounds, and what is stored."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_spark.options.starting import AtTime, Earliest, Latest, Specific, Starting
from aqueduct_spark.read.batch.bounds import Extent, bounds, check_known

EXTENT = Extent(3, "id", "/spool", (0, 1), (10, 0), (100, 50))


def at(*offsets: int) -> Specific:
    return Specific({3: offsets})


@pytest.mark.parametrize(
    ("starting", "ending", "expected"),
    [
        (Earliest(), Latest(), [(0, 10, 100), (1, 0, 50)]),
        (Latest(), Latest(), []),
        (at(20, 20), Latest(), [(0, 20, 100), (1, 20, 50)]),
        (at(-2, -1), Latest(), [(0, 10, 100)]),
        (at(20, 20), at(30, 20), [(0, 20, 30)]),
        (at(100, 50), at(100, 50), []),
        (at(60, 40), at(40, 50), [(1, 40, 50)]),
    ],
)
def test_bounds(starting: Starting, ending: Starting, expected: list[tuple[int, int, int]]) -> None:
    found = bounds(EXTENT, starting, ending)
    assert [(r.partition, r.first, r.stop) for r in found.ranges] == expected
    assert not found.losses
    assert {(r.intake, r.spool, r.at) for r in found.ranges} <= {(3, "id", "/spool")}


def test_times_are_what_the_spool_located() -> None:
    found = bounds(EXTENT, AtTime(1), AtTime(2), located_start=(40, 0), located_end=(90, 0))
    assert [(r.partition, r.first, r.stop) for r in found.ranges] == [(0, 40, 90)]


@pytest.mark.parametrize(
    ("starting", "ending", "subclasses", "expected"),
    [
        (at(5, 0), Latest(), ["RANGE_GONE"], [(0, 10, 100), (1, 0, 50)]),
        (at(20, 0), at(101, 50), ["OFFSET_AHEAD"], [(0, 20, 100), (1, 0, 50)]),
        (at(5, 60), at(200, 70), ["RANGE_GONE", "OFFSET_AHEAD", "OFFSET_AHEAD"], [(0, 10, 100)]),
        (at(5, 0), at(5, 50), [], [(1, 0, 50)]),
    ],
)
def test_what_is_asked_for_and_not_stored_is_told(
    starting: Starting,
    ending: Starting,
    subclasses: list[str],
    expected: list[tuple[int, int, int]],
) -> None:
    found = bounds(EXTENT, starting, ending)
    assert [loss.subclass for loss in found.losses] == subclasses
    assert [(r.partition, r.first, r.stop) for r in found.ranges] == expected


def test_offsets_that_do_not_fit() -> None:
    with pytest.raises(InvalidOption, match="'endingOffsets' names intakes"):
        bounds(EXTENT, Earliest(), Specific({0: (1, 1)}))
    with pytest.raises(InvalidOption, match=r"'startingOffsets'.* 3 partitions"):
        bounds(EXTENT, at(1, 1, 1), Latest())
    with pytest.raises(InvalidOption, match=r"names intakes \[4\]"):
        check_known("startingOffsets", Specific({3: (0, 0), 4: (0, 0)}), [3])
    check_known("startingOffsets", Earliest(), [3])
