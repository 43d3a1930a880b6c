"""The ranges of a sending stream are those of the library, found by bisection."""

from __future__ import annotations

from aioquic.quic.rangeset import RangeSet
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.transport.aioquic.sent_ranges import SentRanges

SPANS = st.tuples(st.integers(0, 60), st.integers(1, 20))
STEPS = st.lists(st.tuples(st.sampled_from(["add", "subtract", "shift"]), SPANS), max_size=60)


@given(STEPS)
def test_it_is_the_set_of_the_library(steps: list[tuple[str, tuple[int, int]]]) -> None:
    ours, theirs = SentRanges(), RangeSet()
    for name, (start, size) in steps:
        if name != "shift":
            for ranges in (ours, theirs):
                getattr(ranges, name)(start, start + size)
        elif len(theirs):
            assert ours.shift() == theirs.shift()
        assert list(ours) == list(theirs)
        assert ours == theirs
        assert len(ours) == len(theirs)
        if len(theirs):
            assert ours.bounds() == theirs.bounds()
            assert ours[0] == theirs[0]
            assert ours[-1] == theirs[-1]
        assert [n for n in range(90) if n in ours] == [n for n in range(90) if n in theirs]
    ours.add(200)
    assert ours[-1] == range(200, 201)
