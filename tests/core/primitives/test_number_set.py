"""A set with holes everywhere: exact, small, and the same after it was written down."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.number_set import BLOCK, NumberSet
from aqueduct_core.primitives.ranges import RangeSet

pairs = st.lists(
    st.tuples(st.integers(0, 4 * BLOCK), st.integers(0, 3 * BLOCK)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    )
)


def written(numbers: NumberSet) -> NumberSet:
    again = NumberSet()
    for entry in json.loads(json.dumps(list(numbers.entries()))):
        again.merge(*entry)
    return again


@given(pairs, pairs, st.booleans())
def test_it_holds_what_was_added(added: list[tuple[int, int]], asked: list[tuple[int, int]],
                                 merged: bool) -> None:  # fmt: skip
    numbers, truth = NumberSet(), RangeSet()
    for first, stop in added:
        assert numbers.missing(first, stop) == truth.missing(first, stop)
        (numbers.merge if merged else numbers.add)(first, stop)
        truth.add(first, stop)
    for first, stop in asked:
        assert numbers.missing(first, stop) == truth.missing(first, stop)
    assert numbers.stop == truth.stop
    assert all((n in numbers) is (n in truth) for pair in asked for n in pair)
    assert written(numbers) == numbers


def test_without_holes_it_is_one_entry_and_every_third_number_is_a_bit() -> None:
    whole, thirds = NumberSet(), NumberSet()
    whole.merge(0, 10**15 * BLOCK)
    assert len(whole) == 1
    for number in range(0, 100 * BLOCK, 3):
        thirds.add(number, number + 1)
    assert len(thirds) == 100
    assert len(json.dumps(list(thirds.entries()))) < 100 * 200
    for number in range(100 * BLOCK):
        thirds.add(number, number + 1)
    assert list(thirds.entries()) == [(0, 100 * BLOCK)]


def test_sets_are_equal_that_hold_the_same_numbers() -> None:
    sets = []
    for added in ([], [(0, 5)], [(0, BLOCK)], [(0, BLOCK + 5)], [(0, BLOCK), (BLOCK, BLOCK + 5)]):
        numbers = NumberSet()
        for first, stop in added:
            numbers.add(first, stop)
        sets.append(numbers)
    *others, same = sets
    assert [same == other for other in others] == [False, False, False, True]
    assert others[0] != others[1] != others[2] != others[0]
    assert others[0] != RangeSet()


def test_the_lowest_goes_first() -> None:
    numbers = NumberSet()
    assert numbers.drop_lowest(0) == 0
    numbers.add(5, 6)
    numbers.add(BLOCK, 3 * BLOCK)
    numbers.add(7 * BLOCK + 1, 7 * BLOCK + 2)
    assert numbers.drop_lowest(2) == 3 * BLOCK
    assert list(numbers.entries()) == [(7, -2)]
    assert numbers.drop_lowest(1) == 8 * BLOCK
    assert len(numbers) == 0
    assert numbers.missing(0, 10) == [(0, 10)]
