"""The fast path against the ordinary codec: the same frames, whatever the mixture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.wire import blocks, codec
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import Block
from aqueduct_core.primitives import varint
from tests.support.rules import rule

MAX = Config().max_payload_bytes


def slow(payloads: list[bytes], first: int) -> bytes:
    return b"".join(codec.encode_message(first + i, (), (), p) for i, p in enumerate(payloads))


def expand(block: Block) -> list[bytes]:
    ends = np.cumsum(block.lengths).tolist()
    return [block.payload[a:b] for a, b in zip([0, *ends], ends, strict=False)]


SIZES = st.lists(
    st.tuples(st.sampled_from([0, 1, 2, 100, 127, 128, 129]), st.integers(1, 40)), max_size=8
)


@rule("AQ-FRAME-5", "AQ-SEND-1")
@given(SIZES, st.sampled_from([0, 1, 100, 120, 127, 128, 16_370, 16_384, 1 << 40]))
@settings(deadline=None)
def test_encode_and_decode(shape: list[tuple[int, int]], first: int) -> None:
    payloads = [bytes([i % 256]) * size for size, times in shape for i in range(times)]
    data = blocks.encode_block(first, payloads)
    assert data == slow(payloads, first)
    block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
    if len(payloads) < 2:
        assert (block, stop) == (None, 0)
        return
    assert block is not None
    assert stop == block.size == len(data)
    assert block.first == first
    assert expand(block) == payloads


@given(st.integers(0, 400), st.sampled_from([20, 300]), st.integers(0, 255))
@settings(deadline=None, max_examples=200)
def test_damage_ends_the_block_where_it_is(at: int, size: int, value: int) -> None:
    """Up to the frame that differs, the block is what the ordinary decoder reads."""
    payloads = [b"x" * size] * 30
    data = bytearray(slow(payloads, 120))
    at = at * len(data) // 401
    data[at] = value
    block, stop = blocks.decode_block(bytes(data), 0, len(data), MAX, 1 << 18)
    pos = 0
    for payload in expand(block) if block else []:
        frame, pos = codec.decode_message(bytes(data), pos, len(data), Config(), Side.CLIENT)
        assert frame.payload == payload
        assert not frame.headers
        assert not frame.attachments
    assert pos == stop


@pytest.mark.parametrize("first", [0, 126, 16_382])
def test_a_block_is_its_messages_one_by_one(first: int) -> None:
    data = slow([b"", b"a", b"b" * 127, b"c" * 128, b"de"], first)
    block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
    assert block is not None
    assert stop == len(data)
    pos, messages = 0, []
    while pos < len(data):
        message, pos = codec.decode_message(data, pos, len(data), Config(), Side.CLIENT)
        messages.append(message)
    assert list(block.messages()) == messages


def test_a_cut_frame_is_left_for_later() -> None:
    data = slow([b"x" * 50] * 40, 0)
    for cut in range(1, 60):
        block, stop = blocks.decode_block(data, 0, len(data) - cut, MAX, 1 << 18)
        assert block is not None
        assert stop == block.size
        assert len(block.lengths) == 39 - (cut - 1) // 55


def test_a_frame_that_is_cut_in_its_length_is_left_for_later() -> None:
    for first in (0, 5):
        data = slow([b"x" * 20, b"y" * 300, b"z" * 300], first)
        whole = len(slow([b"x" * 20, b"y" * 300], first))
        for end in range(whole, len(data)):
            block, stop = blocks.decode_block(data, 0, end, MAX, 1 << 18)
            assert block is not None
            assert stop == whole
            assert expand(block) == [b"x" * 20, b"y" * 300]
        for end in range(whole):
            assert blocks.decode_block(data, 0, end, MAX, 1 << 18) == (None, 0)


@pytest.mark.parametrize(("first", "again"), [(112, 0), (16_368, 0), (16_368, 128)])
def test_numbers_that_begin_again_end_the_block(first: int, again: int) -> None:
    """Where a number gets one more byte, the heads before and behind it are not of one shape."""
    data = slow([b"x"] * 16, first) + slow([b"x"] * 16, again)
    block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
    assert block is not None
    assert len(block.lengths) == 16
    assert stop == len(slow([b"x"] * 16, first))


def test_what_lies_between_frames_of_one_shape_is_not_passed_over() -> None:
    plain = slow([b""] * 16, 0)
    for size in range(200):
        other = codec.encode_message(1000, ((b"k", b"v" * size),), (), b"")
        data = plain + b"".join(slow([b"x"], number) + other for number in range(16, 40))
        block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
        assert block is not None
        assert (len(block.lengths), stop) == (17, 16 * 5 + 6)


@pytest.mark.parametrize("first", [0, 120, 16_380])
def test_sizes_of_frames_that_are_not_made_yet(first: int) -> None:
    payloads = [b"x" * size for size in (0, 1, 127, 128, 5, 6, 7, 8, 9, 16_384)]
    sizes = list(blocks.frame_sizes(first, payloads))
    assert sizes == [len(slow([p], first + i)) for i, p in enumerate(payloads)]


def test_payloads_over_the_limit_are_left_to_the_decoder() -> None:
    for sizes in ([50] * 40, [5, 5, 50], [50, 5]):
        data = slow([b"x" * size for size in sizes], 0)
        block, _ = blocks.decode_block(data, 0, len(data), 10, 1 << 18)
        assert block is None or max(block.lengths) <= 10


def test_numbers_at_their_end_are_left_to_the_decoder() -> None:
    data = slow([b"x"] * 40, (1 << 62) - 2)
    assert blocks.decode_block(data, 0, len(data), MAX, 1 << 18) == (None, 0)


@pytest.mark.parametrize("count", [2, 15, 16, 17, 200, 20_000])
@pytest.mark.parametrize("size", [0, 100, 5000])
def test_bulk_encoding(count: int, size: int) -> None:
    if count * size > 10_000_000:
        count = 300
    payloads = [i.to_bytes(4, "big")[:size].ljust(size, b".") for i in range(count)]
    assert blocks.encode_block(50, payloads) == slow(payloads, 50)


@pytest.mark.parametrize("first", [0, 100, 16_000])
@pytest.mark.parametrize("before", [0, 3])
def test_frames_of_one_size_are_not_taken_one_by_one(
    first: int, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    payloads = [b"x" * 20] * 4096
    head = slow([b"yy"] * before, first)
    calls = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            return function(*given)

        return call

    for name in ("encode", "decode"):
        monkeypatch.setattr(varint, name, counted(getattr(varint, name)))
    data = head + blocks.encode_block(first + before, payloads)
    assert calls < 20
    block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
    assert block is not None
    assert (len(block.lengths), stop) == (before + 4096, len(data))
    assert calls < 600  # what is of mixed sizes is, some hundreds at a time


def test_nothing_to_encode() -> None:
    assert blocks.encode_block(0, []) == b""


def mixed(count: int, sizes: tuple[int, ...] = (0, 1, 20, 127, 128, 199, 300)) -> list[bytes]:
    """Payloads of which no sixteen neighbours are of one size."""
    return [bytes([i % 256]) * sizes[i * i % len(sizes)] for i in range(count)]


@pytest.mark.parametrize("first", [0, 100, 127, 16_000, 1 << 40])
@pytest.mark.parametrize("count", [2, 17, 80, 81, 1_000, 9_000])
def test_mixed_sizes(first: int, count: int) -> None:
    payloads = mixed(count)
    data = slow(payloads, first)
    block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
    assert block is not None
    assert (block.first, stop) == (first, len(data))
    assert expand(block) == payloads


@pytest.mark.parametrize("large", [127, 128, 16_383, 16_384, 40_000, (1 << 21) - 1, 1 << 21])
def test_mixed_sizes_with_large_ones_among_them(large: int) -> None:
    payloads = mixed(400)
    payloads[150] = payloads[220] = payloads[390] = b"y" * large
    data = slow(payloads, 0)
    block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
    assert block is not None
    assert stop == len(data)
    assert expand(block) == payloads


def test_mixed_sizes_at_every_cut() -> None:
    """What is here of it may end in every byte of a frame; all whole frames are taken."""
    payloads = mixed(140)
    data = slow(payloads, 0)
    ends = np.cumsum(list(blocks.frame_sizes(0, payloads)))
    for end in range(int(ends[99]), len(data) + 1):
        block, stop = blocks.decode_block(data, 0, end, MAX, 1 << 18)
        assert block is not None
        count = int(np.searchsorted(ends, end, side="right"))
        assert (len(block.lengths), stop) == (count, ends[count - 1])
        assert expand(block) == payloads[:count]


@given(st.integers(0, 1_000), st.integers(0, 255))
@settings(deadline=None, max_examples=300)
def test_damage_among_mixed_sizes_ends_the_block_where_it_is(at: int, value: int) -> None:
    data = bytearray(slow(mixed(300), 100))
    data[at * (len(data) - 1) // 1_000] = value
    block, stop = blocks.decode_block(bytes(data), 0, len(data), MAX, 1 << 18)
    pos = 0
    for number, payload in enumerate(expand(block), block.first) if block else ():
        frame, pos = codec.decode_message(bytes(data), pos, len(data), Config(), Side.CLIENT)
        assert (frame.number, frame.payload) == (number, payload)
        assert not frame.headers
        assert not frame.attachments
    assert pos == stop


def test_other_frames_among_mixed_sizes_are_not_passed_over() -> None:
    payloads = mixed(200)
    sizes = list(blocks.frame_sizes(0, payloads))
    for at in (16, 17, 79, 80, 81, 150):
        for other in (
            codec.encode_message(at, ((b"k", b"v"),), (), payloads[at]),
            codec.encode_finish_sender(at),
            codec.encode_message(at + 1, (), (), payloads[at]),
        ):
            data = slow(payloads[:at], 0) + other + slow(payloads[at:], at)
            block, stop = blocks.decode_block(data, 0, len(data), MAX, 1 << 18)
            assert block is not None
            assert (len(block.lengths), stop) == (at, sum(sizes[:at]))


def test_mixed_sizes_over_the_limit_are_left_to_the_decoder() -> None:
    payloads = mixed(200)
    payloads[120] = b"z" * 301
    data = slow(payloads, 0)
    block, _ = blocks.decode_block(data, 0, len(data), 300, 1 << 18)
    assert block is not None
    assert len(block.lengths) == 120
