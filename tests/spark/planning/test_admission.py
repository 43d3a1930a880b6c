"""How much goes into a batch, and how it becomes tasks: tables of cases."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_spark.options.read_parts import SplitOptions
from aqueduct_spark.planning.admission import apportion, apportion_bytes
from aqueduct_spark.planning.ranges import DataRange
from aqueduct_spark.planning.sizes import Marks, offset_of, size_of
from aqueduct_spark.planning.splits import cut, cuts_of, split

UNEVEN: Marks = [(110, 1000), (111, 5000), (120, 5009)]
"""Rows 100 to 119: ten of 100 bytes, one of 4000, nine of one."""


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
        ([1_000_000, 3, 40], 30, [14, 3, 13]),
        ([1_000_000, 1], 2, [1, 1]),
        ([300, 100], 40, [20, 20]),
        ([0, 50, 0], 7, [0, 7, 0]),
        ([5, 5, 5], 1, [1, 1, 1]),  # a soft limit: each partition with data gives one
        ([7, 7, 7], 10, [4, 3, 3]),
    ],
)
def test_a_limit_is_shared_fairly(
    available: list[int], limit: int | None, shares: list[int]
) -> None:
    assert apportion(available, limit) == shares


@given(st.lists(st.integers(0, 10**12), max_size=20), st.integers(1, 10**9))
def test_shares_keep_the_limit_and_nobody_has_more_than_who_wants_more(
    available: list[int], limit: int
) -> None:
    shares = apportion(available, limit)
    assert all(share <= count for share, count in zip(shares, available, strict=True))
    assert all(share > 0 for share, count in zip(shares, available, strict=True) if count)
    waiting = sum(1 for count in available if count)
    assert sum(shares) == min(sum(available), max(limit, waiting))
    hungry = [s for s, count in zip(shares, available, strict=True) if s < count]
    assert not hungry or max(shares) - min(hungry) <= 1


@pytest.mark.parametrize(
    ("stop", "size"),
    [(100, 0), (105, 500), (110, 1000), (111, 5000), (115, 5004), (120, 5009), (999, 5009)],
)
def test_sizes(stop: int, size: int) -> None:
    assert size_of(UNEVEN, 100, stop) == size


@pytest.mark.parametrize(
    ("size", "offset"),
    [
        (0, 100),
        (99, 100),
        (100, 101),
        (999, 109),
        (1000, 110),
        (4999, 110),
        (5000, 111),
        (9999, 120),
    ],
)
def test_offsets(size: int, offset: int) -> None:
    assert offset_of(UNEVEN, 100, size) == offset


SMALL: Marks = [(20, 200)]
TINY: Marks = [(20, 20)]


@pytest.mark.parametrize(
    ("shares", "other", "limit", "cut"),
    [
        ([20, 20], SMALL, None, [20, 20]),
        ([20, 20], SMALL, 6000, [20, 20]),
        ([20, 20], SMALL, 1000, [8, 20]),  # 800 bytes and 200
        ([20, 20], TINY, 10, [1, 5]),  # one of 100 bytes goes through
        ([20, 0], SMALL, 500, [5, 0]),
    ],
)
def test_bytes_cut_shares_back(
    shares: list[int], other: Marks, limit: int | None, cut: list[int]
) -> None:
    assert apportion_bytes([100, 0], shares, [UNEVEN, other], limit) == cut


def test_a_share_of_unknown_size_is_left_as_it_is() -> None:
    assert apportion_bytes([100, 7], [20, 9], [UNEVEN, None], 1000) == [10, 9]


@given(
    st.lists(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), min_size=1, max_size=6),
    st.integers(1, 10**7),
)
def test_bytes_are_kept_where_no_single_message_is_above(rows: list[list[int]], limit: int) -> None:
    marks = [[(i + 1, sum(of[: i + 1])) for i in range(len(of))] for of in rows]
    shares = [len(of) for of in rows]
    cut = apportion_bytes([0] * len(rows), shares, marks, limit)
    taken = [sum(of[:share]) for of, share in zip(rows, cut, strict=True)]
    assert all(1 <= c <= s for c, s in zip(cut, shares, strict=True))
    forced = sum(of[0] for of, share in zip(rows, cut, strict=True) if share == 1)
    assert sum(taken) <= limit + forced


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
    bounds: SplitOptions, sizes: dict[tuple[int, int], Marks], edges: list[tuple[int, int]]
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
