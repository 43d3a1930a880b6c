"""Bytes that wait to be parsed."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.byte_queue import ByteQueue


def test_nothing_is_joined_before_it_is_wanted() -> None:
    backlog = ByteQueue()
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
    backlog = ByteQueue()
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


@pytest.mark.parametrize("end", ["clear", "skip", "take"])
def test_after_an_end_one_byte_is_enough_again(end: str) -> None:
    backlog = ByteQueue()
    backlog.feed(b"abc")
    backlog.want(5)
    match end:
        case "clear":
            backlog.clear()
        case "skip":
            assert backlog.skip(7) == 3
        case "take":
            backlog.take(3)
    assert not backlog.ready()
    backlog.feed(b"x")
    assert backlog.ready()
    assert backlog.data[backlog.pos :] == b"x"


def test_an_empty_one_waits_for_what_is_wanted() -> None:
    backlog = ByteQueue()
    for piece in (b"abc", b"def"):
        backlog.want(3)
        backlog.feed(piece[:2])
        assert not backlog.ready()
        backlog.feed(piece[2:])
        assert backlog.ready()
        assert backlog.data[backlog.pos :] == piece
        backlog.take(backlog.pos + 3)


def held(backlog: ByteQueue) -> int:
    """Bytes of all objects that it keeps."""
    return sum(map(sys.getsizeof, [backlog.data, backlog._pieces, *backlog._pieces]))


@pytest.mark.parametrize("size", [1, 7, 100, 1_200, 5_000])
def test_memory_is_about_what_waits_in_whatever_pieces(size: int) -> None:
    backlog = ByteQueue()
    backlog.feed(b"x")
    backlog.want(1 << 20)
    for _ in range(200_000 // size):
        backlog.feed(bytes(size))
    assert held(backlog) < 1.3 * backlog.size + 1_000


def test_what_was_read_is_not_kept_with_the_rest() -> None:
    backlog = ByteQueue()
    backlog.feed(bytes(100_000))
    assert backlog.ready()
    backlog.take(99_999)
    backlog.want(5)
    assert held(backlog) < 1_000
    backlog.feed(b"abcd")
    assert backlog.ready()
    assert backlog.data[backlog.pos :] == b"\0abcd"
