"""Many plain MESSAGE frames at once, between wire bytes and columns, both ways.

A plain frame has consecutive number, no headers and no attachments. Frames of equal size are
checked or built as one matrix; mixed sizes go through a tight loop. Neither makes an object for
each message. Whatever is not plain ends the block, and the ordinary decoder goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.aqueduct.wire.frames import Block
from aqueduct_core.primitives import varint

_TAG = 0x04
_PLAIN = b"\x00\x00"
_LAST_FIRST = (1 << 62) - (1 << 20)
"""Blocks start below it, so that none reaches the end of the numbers (AQ-FRAME-14)."""
LONGEST_HEAD = 24
"""A plain frame has fewer bytes than this before its payload."""
MATRIX_LEAST = 16
"""Fewer frames than this are not worth a matrix."""
_LOOPED = 256
"""Frames taken one by one before equal ones are looked for again."""
_MATRIX_MOST = 8192
"""Frames checked at once: bounds the work that one differing frame makes useless."""


def decode_block(
    data: bytes, start: int, end: int, max_payload: int, most: int
) -> tuple[Block | None, int]:
    """The plain frames from ``start`` on, at most about ``most`` of them.

    Returns None and ``start`` when there are fewer than two: the ordinary decoder takes those.
    """
    head = _head(data, start, end, max_payload)
    if head is None or head[2] >= end:
        return None, start
    first = number = head[0]
    pos = start
    pieces: list[bytes] = []
    lengths: list[NDArray[np.int64] | list[int]] = []
    while number - first < most:
        head = _head(data, pos, end, max_payload)
        if head is None or head[0] != number:
            break
        count = _equal_frames(data, pos, end, head)
        if count >= MATRIX_LEAST:
            payload_at, stop = head[1], head[2]
            size, before = stop - pos, payload_at - pos
            matrix = np.frombuffer(data, np.uint8, count * size, pos).reshape(count, size)
            pieces.append(matrix[:, before:].tobytes())
            lengths.append(np.full(count, size - before, np.int64))
            pos += count * size
            number += count
            continue
        loop_lengths: list[int] = []
        pos = _loop(
            data,
            pos,
            end,
            number=number,
            max_payload=max_payload,
            pieces=pieces,
            lengths=loop_lengths,
        )
        lengths.append(loop_lengths)
        number += len(loop_lengths)
    count = number - first
    if count < 2:
        return None, start
    return Block(
        first, np.concatenate(lengths).astype(np.int64), b"".join(pieces), pos - start
    ), pos


def _head(data: bytes, pos: int, end: int, max_payload: int) -> tuple[int, int, int] | None:
    """Number, payload start and frame end of a plain frame that is all here; else None."""
    if end - pos < 5 or data[pos] != _TAG:
        return None
    try:
        number, at = varint.decode(data, pos + 1, end)
        if data[at : at + 2] != _PLAIN:
            return None
        length, at = varint.decode(data, at + 2, end)
    except (varint.NeedMore, varint.Malformed):
        return None
    if length > max_payload or number >= _LAST_FIRST or at + length > end:
        return None
    return number, at, at + length


def _equal_frames(data: bytes, pos: int, end: int, head: tuple[int, int, int]) -> int:
    """How many frames from ``pos`` on have the first one's shape and consecutive numbers."""
    number, payload_at, stop = head
    size = stop - pos
    width = payload_at - pos
    digits = len(varint.encode(number))
    # numbers of one block keep the same count of varint bytes
    count = min((end - pos) // size, (1 << 7 * digits) - number, _MATRIX_MOST)
    if count < MATRIX_LEAST:
        return 0
    probe = pos + (MATRIX_LEAST - 1) * size
    expected = b"\x04" + varint.encode(number + MATRIX_LEAST - 1)
    if data[probe : probe + digits + 1] != expected:
        return 0
    matrix = np.frombuffer(data, np.uint8, count * size, pos).reshape(count, size)
    same = (matrix[:, :width] == _heads(number, count, data[pos:payload_at], digits)).all(axis=1)
    return count if same.all() else int(same.argmin())


def _heads(number: int, count: int, template: bytes, digits: int) -> NDArray[np.uint8]:
    """The bytes before the payload of ``count`` frames, numbered from ``number``."""
    heads = np.empty((count, len(template)), np.uint8)
    heads[:] = np.frombuffer(template, np.uint8)
    numbers = np.arange(number, number + count, dtype=np.int64)
    for digit in range(digits):
        more = 0x80 if digit < digits - 1 else 0
        heads[:, 1 + digit] = numbers >> 7 * digit & 0x7F | more
    return heads


def _loop(
    data: bytes,
    pos: int,
    end: int,
    *,
    number: int,
    max_payload: int,
    pieces: list[bytes],
    lengths: list[int],
) -> int:
    """Take up to `_LOOPED` plain frames that go on at ``number``; the position behind them."""
    add_piece = pieces.append
    add_length = lengths.append
    decode = varint.decode
    for expected in range(number, number + _LOOPED):
        prefix = b"\x04" + varint.encode(expected) + _PLAIN
        at = pos + len(prefix)
        if at >= end or data[pos:at] != prefix:
            break
        length = data[at]
        if length < 0x80:
            at += 1
        else:
            try:
                length, at = decode(data, at, end)
            except (varint.NeedMore, varint.Malformed):
                break
        stop = at + length
        if stop > end or length > max_payload:
            break
        add_piece(data[at:stop])
        add_length(length)
        pos = stop
    return pos


def plain_sizes(first: int, payloads: Sequence[bytes]) -> Iterator[int]:
    """The bytes of each plain MESSAGE frame of ``payloads``, numbered from ``first``."""
    for number, payload in enumerate(payloads, first):
        length = len(payload)
        yield 3 + len(varint.encode(number)) + len(varint.encode(length)) + length


def encode_block(first: int, payloads: Sequence[bytes]) -> bytes:
    """The plain MESSAGE frames of ``payloads``, numbered from ``first``."""
    count = len(payloads)
    size = len(payloads[0]) if payloads else 0
    if count >= MATRIX_LEAST and size <= 1 << 12 and all(len(p) == size for p in payloads):
        return _encode_equal(first, payloads, size)
    encode = varint.encode
    out = []
    for number, payload in enumerate(payloads, first):
        out.append(b"\x04" + encode(number) + _PLAIN + encode(len(payload)))
        out.append(payload)
    return b"".join(out)


def _encode_equal(first: int, payloads: Sequence[bytes], size: int) -> bytes:
    joined = b"".join(payloads)
    out = []
    done = 0
    while done < len(payloads):
        number = first + done
        digits = len(varint.encode(number))
        count = min(len(payloads) - done, (1 << 7 * digits) - number)
        template = b"\x04" + varint.encode(number) + _PLAIN + varint.encode(size)
        frames = np.empty((count, len(template) + size), np.uint8)
        frames[:, : len(template)] = _heads(number, count, template, digits)
        if size:
            body = np.frombuffer(joined, np.uint8, count * size, done * size)
            frames[:, len(template) :] = body.reshape(count, size)
        out.append(frames.tobytes())
        done += count
    return b"".join(out)
