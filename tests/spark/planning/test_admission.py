"""How much goes into a batch, and how it becomes tasks: tables of cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_spark.planning.admission import AdmissionDelay, apportion, apportion_bytes
from aqueduct_spark.planning.ranges import SizeIndex
from tests.spark.planning.test_ranges import UNEVEN


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


SMALL: SizeIndex = [(20, 200)]
TINY: SizeIndex = [(20, 20)]


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
    shares: list[int], other: SizeIndex, limit: int | None, cut: list[int]
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


@pytest.mark.parametrize(
    ("least", "rows", "now", "remaining"),
    [
        (None, 1, 0.0, 0.0),
        (10, 0, 0.0, 0.0),
        (10, 1, 0.0, 60.0),
        (10, 9, 59.0, 1.0),
        (10, 9, 60.0, 0.0),
        (10, 10, 0.0, 0.0),
    ],
)
def test_few_messages_wait_but_not_for_ever(
    least: int | None, rows: int, now: float, remaining: float
) -> None:
    patience = AdmissionDelay(least, 60.0).seeing(min(rows, 1), 0.0).seeing(rows, now)
    assert patience.remaining(rows, now) == remaining


def test_the_wait_begins_with_the_first_message() -> None:
    patience = AdmissionDelay(10, 60.0).seeing(0, 0.0).seeing(1, 100.0).seeing(2, 130.0)
    assert patience.remaining(2, 130.0) == 30.0
    assert patience.seeing(0, 140.0).seeing(1, 150.0).remaining(1, 150.0) == 60.0
