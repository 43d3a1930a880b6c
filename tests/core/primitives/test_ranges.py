"""RangeSet against a plain set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.ranges import RangeSet
from tests.support.rules import rule

OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "add", "remove"]), st.integers(0, 40), st.integers(0, 12)),
    max_size=40,
)


def numbers(pieces: list[tuple[int, int]]) -> set[int]:
    return {n for first, stop in pieces for n in range(first, stop)}


@given(OPERATIONS, st.integers(0, 50), st.integers(0, 20))
def test_against_a_plain_set(operations: list[tuple[str, int, int]], low: int, length: int) -> None:
    ranges, model = RangeSet(), set[int]()
    for name, first, size in operations:
        piece = set(range(first, first + size))
        if name == "add":
            assert numbers(ranges.add(first, first + size)) == piece - model
            model |= piece
        else:
            assert numbers(ranges.remove(first, first + size)) == piece & model
            model -= piece
        assert numbers(list(ranges)) == model
        assert ranges.count == len(model)
        edges = [edge for pair in ranges for edge in pair]
        assert edges == sorted(set(edges))  # disjoint and never adjacent
    window = set(range(low, low + length))
    assert ranges.covers(low, low + length) == (window <= model)
    assert ranges.overlaps(low, low + length) == bool(window & model)
    assert numbers(ranges.within(low, low + length)) == window & model
    assert numbers(ranges.missing(low, low + length)) == window - model
    assert (low in ranges) == (low in model)
    assert ranges.lowest_missing(low) == min(set(range(low, 100)) - model)
    assert ranges.first == min(model, default=0)
    assert ranges.stop == max(model, default=-1) + 1
    assert ranges == RangeSet(ranges)
    ranges.clear()
    assert not ranges
    assert ranges.count == 0


@rule("AQ-ACK-13")
def test_length_costs_nothing() -> None:
    ranges = RangeSet()
    ranges.add(0, 1 << 61)
    assert ranges.remove(5, 1 << 60) == [(5, 1 << 60)]
    assert ranges.missing(0, 1 << 61) == [(5, 1 << 60)]
    assert repr(RangeSet([(1, 2)])) == "RangeSet([(1, 2)])"
    assert RangeSet() != 0


def test_an_empty_range_is_nowhere() -> None:
    ranges = RangeSet([(1, 9)])
    assert not ranges.overlaps(4, 4)
    assert ranges.within(4, 4) == ranges.missing(4, 4) == []
    assert ranges.covers(20, 20)


def test_sets_are_equal_where_all_their_edges_are() -> None:
    ranges = RangeSet([(1, 3), (5, 7)])
    assert ranges == RangeSet([(5, 7), (1, 3)])
    for other in ([(1, 3), (5, 8)], [(1, 3), (4, 7)], [(1, 3)], []):
        assert ranges != RangeSet(other)
