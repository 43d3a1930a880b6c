"""How ranges become tasks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_spark.model.offsets import DataRange
from aqueduct_spark.options.read_parts import SplitOptions
from aqueduct_spark.planning.ranges import SizeIndex
from aqueduct_spark.planning.splits import cut, cuts_of, split
from tests.spark.planning.test_ranges import UNEVEN


def piece(first: int, stop: int, partition: int = 0) -> DataRange:
    return DataRange(0, "id", "h:1", partition, first, stop)


WHOLE = [piece(100, 120), piece(0, 4, 1)]


SPLITS = [
    (SplitOptions(), {}, [(100, 120), (0, 4)]),
    (SplitOptions(max_records=8), {}, [(100, 106), (106, 113), (113, 120), (0, 4)]),
    (SplitOptions(max_records=1), {}, [(n, n + 1) for n in (*range(100, 120), *range(4))]),
    (SplitOptions(max_records=100), {}, [(100, 120), (0, 4)]),
    (SplitOptions(max_bytes=5009), {(0, 0): UNEVEN}, [(100, 120), (0, 4)]),
    (SplitOptions(max_bytes=2600), {(0, 0): UNEVEN}, [(100, 110), (110, 120), (0, 4)]),
    (
        SplitOptions(max_bytes=500),
        {(0, 0): UNEVEN},
        [(100, 104), (104, 109), (109, 110), (110, 120), (0, 4)],
    ),
    (SplitOptions(max_bytes=1), {(0, 1): [(4, 4)]}, [(100, 120), (0, 1), (1, 2), (2, 3), (3, 4)]),
    (SplitOptions(max_bytes=1), {}, [(100, 120), (0, 4)]),  # sizes are not known
    (
        SplitOptions(max_records=9, max_bytes=2600),
        {(0, 0): UNEVEN},
        [(100, 105), (105, 110), (110, 115), (115, 120), (0, 4)],
    ),
    (SplitOptions(min_partitions=2), {}, [(100, 120), (0, 4)]),
    (SplitOptions(min_partitions=3), {}, [(100, 110), (110, 120), (0, 4)]),
    (
        SplitOptions(min_partitions=6),
        {},
        [(100, 104), (104, 108), (108, 112), (112, 116), (116, 120), (0, 4)],
    ),
    (SplitOptions(min_partitions=500), {}, [(n, n + 1) for n in (*range(100, 120), *range(4))]),
]


@pytest.mark.parametrize(("bounds", "sizes", "edges"), SPLITS)
def test_ranges_are_split(
    bounds: SplitOptions, sizes: dict[tuple[int, int], SizeIndex], edges: list[tuple[int, int]]
) -> None:
    assert [(rows.first, rows.stop) for rows in split(WHOLE, bounds, sizes)] == edges


@given(
    st.lists(st.integers(0, 3000), max_size=5),
    st.none() | st.integers(1, 500),
    st.none() | st.integers(1, 500),
    st.none() | st.integers(1, 50_000),
)
def test_pieces_hold_each_row_once(
    counts: list[int], least: int | None, records: int | None, size: int | None
) -> None:
    ranges = [piece(10, 10 + count, p) for p, count in enumerate(counts) if count]
    sizes = {
        (0, r.partition): [(r.first + 1, 900), (r.stop, 900 + 7 * (r.stop - r.first))]
        for r in ranges
    }
    bounds = SplitOptions(least, records, size)
    pieces = split(ranges, bounds, sizes)
    assert pieces == split(ranges, bounds, sizes)
    assert cut(ranges, cuts_of(pieces)) == pieces
    for whole in ranges:
        parts = [p for p in pieces if p.partition == whole.partition]
        assert (parts[0].first, parts[-1].stop) == (whole.first, whole.stop)
        assert all(a.stop == b.first for a, b in pairwise(parts))
    assert all(rows.first < rows.stop for rows in pieces)
    assert records is None or all(rows.stop - rows.first <= records for rows in pieces)
    assert len(pieces) >= min(least or 0, sum(counts))


def test_cuts_outside_of_a_range_do_nothing() -> None:
    cuts = {(0, 0): (40, 100, 110, 120, 500), (7, 0): (3,)}
    assert cut(WHOLE, cuts) == [piece(100, 110), piece(110, 120), piece(0, 4, 1)]


def test_the_number_of_tasks_is_bounded() -> None:
    ranges = [piece(0, 10**9), piece(0, 10**9, 1)]
    for bounds in (SplitOptions(max_records=1), SplitOptions(min_partitions=10**6)):
        assert len(split(ranges, bounds, {}, 10)) == 10
    assert len(split(ranges, SplitOptions(max_bytes=1), {(0, 0): [(10**9, 10**12)]}, 10)) == 10
