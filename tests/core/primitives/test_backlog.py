"""Bytes that wait to be parsed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.backlog import Backlog


def test_nothing_is_joined_before_it_is_wanted() -> None:
    backlog = Backlog()
    backlog.feed(b"ab")
    backlog.want(5)
    backlog.feed(b"cd")
    assert not backlog.ready()
    assert backlog.data == b"ab"
    backlog.feed(b"ef")
    assert backlog.ready()
    assert backlog.data[backlog.pos :] == b"abcdef"


@given(
    st.lists(st.binary(max_size=6), max_size=20),
    st.lists(st.tuples(st.sampled_from(["take", "skip"]), st.integers(0, 8)), max_size=20),
)
def test_what_goes_in_comes_out(pieces: list[bytes], steps: list[tuple[str, int]]) -> None:
    backlog = Backlog()
    for piece in pieces:
        backlog.feed(piece)
    rest = b"".join(pieces)
    for name, count in steps:
        assert backlog.size == len(rest)
        if name == "skip":
            assert backlog.skip(count) == min(count, len(rest))
            rest = rest[count:]
        elif backlog.ready():
            count = min(count, len(rest))
            assert backlog.data[backlog.pos : backlog.pos + backlog.size] == rest
            backlog.take(backlog.pos + count)
            rest = rest[count:]
    backlog.clear()
    assert backlog.size == 0
