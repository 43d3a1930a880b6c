"""Frames with headers taken in a row, against the ordinary codec: the same frames."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.wire import blocks, codec
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import MessageFrame
from aqueduct_core.aqueduct.wire.header_blocks import decode_header_block
from aqueduct_core.engine.header_column import HeaderColumn
from aqueduct_core.engine.message_batch import Attachment, Headers
from tests.support.rules import rule

CONFIG = Config()
PARTS = st.one_of(st.binary(max_size=4), st.just(b"v" * 130))
HEADERS = st.lists(st.tuples(PARTS, PARTS), max_size=3).map(tuple)
FIRST = st.sampled_from([0, 1, 100, 127, 16_370, 1 << 40])


def one_by_one(data: bytes, stop: int) -> list[MessageFrame]:
    pos, frames = 0, []
    while pos < stop:
        frame, pos = codec.decode_message(data, pos, len(data), CONFIG, Side.CLIENT)
        frames.append(frame)
    assert pos == stop
    return frames


def check(data: bytes, end: int, config: Config = CONFIG, most: int = 5000) -> int:
    """The block at the begin of ``data``, if any, is what the codec reads; how many frames."""
    block, stop = decode_header_block(data, 0, end, config, most)
    if block is None:
        assert stop == 0
        return 0
    assert list(block.messages()) == one_by_one(data, stop)
    assert block.size == stop <= end
    assert all(block.headers.values())
    assert len(block.lengths) >= 2
    return len(block.lengths)


@rule("AQ-FRAME-5", "AQ-HDRDATA-1")
@given(st.lists(st.tuples(HEADERS, PARTS), max_size=30), FIRST)
@settings(deadline=None)
def test_what_is_encoded_in_a_row_is_read_in_a_row(
    each: list[tuple[Headers, bytes]], first: int
) -> None:
    column = HeaderColumn.of(headers for headers, _ in each)
    payloads = [payload for _, payload in each]
    data = blocks.encode_block(first, payloads, column)
    assert data == b"".join(
        codec.encode_message(first + i, headers, (), payload)
        for i, (headers, payload) in enumerate(each)
    )
    sizes = list(blocks.frame_sizes(first, payloads, column))
    assert sum(sizes) == len(data)
    count = check(data, len(data))
    if len(each) > 1 and each[0][0] and len(each) < 8:
        assert count == len(each)


@pytest.mark.parametrize("count", [2, 8, 9, 136, 137, 2000])
def test_long_rows(count: int) -> None:
    column = HeaderColumn.rising((), b"row", [b"%d" % row for row in range(count)])
    data = blocks.encode_block(5, [b"x"] * count, column)
    assert check(data, len(data)) == count
    for most in (0, 1, 2, 7, 8, 9, 136, 137, 1999):
        taken = min(count, most)
        assert check(data, len(data), most=most) == (taken if taken >= 2 else 0)


def test_a_frame_that_is_not_all_here_is_left_for_later() -> None:
    column = HeaderColumn.of([((b"k", b"v" * 200),), ((b"k", b""),), ((b"l", b"v"),)])
    data = blocks.encode_block(0, [b"x" * 200, b"", b"y" * 130], column)
    ends = [sum(list(blocks.frame_sizes(0, [b"x" * 200, b"", b"y" * 130], column))[:n])
            for n in range(4)]  # fmt: skip
    for end in range(len(data) + 1):
        whole = sum(stop <= end for stop in ends[1:])
        assert check(data, end) == (whole if whole >= 2 else 0)


@given(st.integers(0, 400), st.integers(0, 255))
@settings(deadline=None, max_examples=300)
def test_damage_ends_the_row_where_it_is(at: int, value: int) -> None:
    column = HeaderColumn.rising(((b"batch", b"0"),), b"row", [b"%d" % i for i in range(20)])
    data = bytearray(blocks.encode_block(120, [b"x" * 20] * 20, column))
    data[at * len(data) // 401] = value
    check(bytes(data), len(data))


def test_what_is_no_row_is_left_to_the_codec() -> None:
    headers: Headers = ((b"k", b"v"),)
    frames = [codec.encode_message(number, headers, (), b"x") for number in range(4)]
    plain = codec.encode_message(0, (), (), b"x") + frames[1]
    carrier = codec.encode_message(1, headers, (Attachment(4, ()),), b"x")
    for data, count in (
        (frames[0], 0),
        (plain, 0),
        (frames[0] + frames[2], 0),  # a number is left out
        (frames[0] + frames[1] + frames[3], 2),
        (frames[0] + carrier + frames[2], 0),
        (frames[0] + b"\x06\x01", 0),
        (frames[0] + b"\x04", 0),
    ):
        assert check(data, len(data)) == count


@pytest.mark.parametrize(
    "config",
    [Config(max_headers_bytes=3), Config(max_header_pairs=1), Config(max_payload_bytes=3)],
)
def test_a_frame_over_a_limit_is_left_to_the_codec(config: Config) -> None:
    small: Headers = ((b"", b"v"),)
    frames = [codec.encode_message(number, small, (), b"x") for number in range(2)]
    large = codec.encode_message(2, ((b"k", b"v"), (b"k", b"")), (), b"xxxx")
    data = b"".join(frames) + large
    assert check(data, len(data), config) == 2


def test_few_headers_end_the_row() -> None:
    """The decoder of plain frames is quicker with the rest."""
    column = HeaderColumn.of([((b"k", b"v"),), *[()] * 999])
    data = blocks.encode_block(0, [b"x"] * 1000, column)
    assert check(data, len(data)) < 200
