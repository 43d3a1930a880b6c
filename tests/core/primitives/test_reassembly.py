"""Reassembly of a stream against the plainest model: a dictionary of bytes by offset."""

from __future__ import annotations

import random
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.reassembly import JOINED, Reassembly, TooScattered

CONTENT = bytes(random.Random(1).randbytes(100_000))


class Model:
    """What came of a stream, byte by byte."""

    def __init__(self) -> None:
        self.position = 0
        self.bytes: dict[int, int] = {}

    def add(self, start: int, data: bytes) -> bytes:
        for offset, byte in enumerate(data, start):
            if offset >= self.position:
                self.bytes.setdefault(offset, byte)
        out = bytearray()
        while self.position in self.bytes:
            out.append(self.bytes.pop(self.position))
            self.position += 1
        return bytes(out)

    @property
    def ranges(self) -> int:
        return sum(offset - 1 not in self.bytes for offset in self.bytes)


def check(stream: Reassembly) -> None:
    """The invariants of what is kept."""
    pieces = list(zip(stream._starts, stream._pieces, strict=True))
    assert all(start > stream.position and piece for start, piece in pieces)
    for (start, piece), (other, behind) in pairwise(pieces):
        assert start + len(piece) <= other
        assert start + len(piece) < other or len(piece) + len(behind) > JOINED
    assert stream.held == sum(len(piece) for _, piece in pieces)


SEGMENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)))


@given(SEGMENTS, st.integers(1, 8))
def test_any_segments_give_what_the_model_gives(
    segments: list[tuple[int, int]], limit: int
) -> None:
    stream, model = Reassembly(limit), Model()
    for start, size in segments:
        data = CONTENT[start : start + size]
        before = dict(model.bytes), model.position
        expected = model.add(start, data)
        if model.ranges > limit:
            model.bytes, model.position = before
            held = stream.held, stream.ranges
            with pytest.raises(TooScattered):
                stream.add(start, data)
            assert (stream.held, stream.ranges) == held
        else:
            assert stream.add(start, data) == expected
        check(stream)
        assert stream.position == model.position
        assert stream.ranges == model.ranges
        assert stream.held == len(model.bytes)


@pytest.mark.parametrize("size", [1, 7, 1200, JOINED - 1, JOINED, JOINED + 1, 3 * JOINED])
@pytest.mark.parametrize("order", ["forwards", "backwards", "odd ones first"])
def test_a_stream_whose_first_piece_comes_last(size: int, order: str) -> None:
    content = CONTENT[: max(3_000, 5 * size)]
    starts = list(range(0, len(content), size))
    later = {
        "forwards": starts[1:],
        "backwards": starts[:0:-1],
        "odd ones first": starts[1::2] + starts[2::2],
    }[order]
    stream = Reassembly(len(starts))
    for start in later:
        assert stream.add(start, content[start : start + size]) == b""
        check(stream)
    assert stream.held == len(content) - size
    assert stream.ranges == 1
    assert stream.add(0, content[:size]) == content
    assert (stream.held, stream.ranges, stream.position) == (0, 0, len(content))


def test_what_overlaps_the_end_of_what_was_given_on() -> None:
    stream = Reassembly(2)
    assert stream.add(0, b"abc") == b"abc"
    assert stream.add(1, b"bcd") == b"d"
    assert stream.add(0, b"abcd") == b""
    assert stream.add(4, b"") == b""
    assert stream.add(9, b"") == b""
    assert stream.held == 0


def test_one_range_too_many_is_refused_and_the_others_stay() -> None:
    stream = Reassembly(2)
    stream.add(2, b"c")
    stream.add(4, b"e")
    with pytest.raises(TooScattered, match="2 ranges"):
        stream.add(6, b"g")
    assert stream.add(3, b"d") == b""  # joins the two
    assert stream.add(6, b"g") == b""
    assert stream.add(0, b"ab") == b"abcde"
    assert stream.add(5, b"f") == b"fg"


@pytest.mark.parametrize("step", [1, 2])
def test_single_bytes_are_kept_at_little_more_than_their_size(step: int) -> None:
    """With each second one first, and then all others: no pieces of two bytes stay."""
    stream = Reassembly(256)
    for first in range(1, 60_001, 256):
        for start in range(first, first + 256, step):
            stream.add(start, b"x")
        for start in range(first + 1, first + 256, step):
            stream.add(start, b"x")
    check(stream)
    size = sum(map(sys.getsizeof, stream._pieces)) + sys.getsizeof(stream._pieces)
    assert stream.held > 60_000
    assert size < 2.5 * stream.held


def test_an_end_otherwise_forgets_what_waits() -> None:
    stream = Reassembly(4)
    stream.add(5, b"x")
    stream.clear()
    assert (stream.held, stream.ranges) == (0, 0)
    assert stream.add(0, b"abcdef") == b"abcdef"


def test_pieces_that_touch_are_one_range_when_more_comes_over_them() -> None:
    stream = Reassembly(4)
    for start in (10, 10 + JOINED):
        stream.add(start, CONTENT[start : start + JOINED])
    assert (len(stream._pieces), stream.ranges) == (2, 1)
    stop = 12 + 2 * JOINED
    assert stream.add(8, CONTENT[8:stop]) == b""
    assert (stream.ranges, stream.held) == (1, stop - 8)
    check(stream)
    assert stream.add(0, CONTENT[:8]) == CONTENT[:stop]
    assert (stream.ranges, stream.held) == (0, 0)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("size", [1, JOINED // 2, JOINED // 2 + 1, JOINED])
def test_neighbours_are_joined_up_to_their_bound(size: int, backwards: bool) -> None:
    half = JOINED // 2
    pieces = [(10, size), (10 + size, half)]
    stream = Reassembly(4)
    for start, length in reversed(pieces) if backwards else pieces:
        stream.add(start, CONTENT[start : start + length])
    assert len(stream._pieces) == (1 if size + half <= JOINED else 2)
    assert stream.ranges == 1
    check(stream)
