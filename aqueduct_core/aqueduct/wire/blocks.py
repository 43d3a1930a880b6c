"""Many plain MESSAGE frames at once, between wire bytes and columns, both ways.

A plain frame has consecutive number, no headers and no attachments. Frames of equal size are
checked or built as one matrix. Of frames of mixed sizes a loop finds no more than where each has
its length; all else is checked and computed for many together. Neither makes an object for each
message that stays. Whatever is not plain ends the block: the ordinary decoder goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.aqueduct.wire.frames import Block
from aqueduct_core.engine.header_column import HeaderColumn
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
_WALK_BYTES = 8 << 10
"""Where more than this is left, so many are taken one by one as show what is coming:"""
_TRIED = MATRIX_LEAST
_WALKED_FIRST = 4 * _TRIED
"""Frames that are taken together behind those; four times as many after each time that all of them
were plain, since one that is not makes the rest useless."""
_LARGE = 1 << 10
"""Payloads that have so many bytes on average are copied once, others by way of small pieces: that
is quicker for them."""
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
    pieces: list[bytes | memoryview] = []
    lengths: list[NDArray[np.int64] | list[int]] = []
    window = 0
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
        if window:
            walked, pos = _walk(data, pos, end, number, max_payload, window, pieces)
            window = min(4 * window, _MATRIX_MOST) if len(walked) == window else 0
            lengths.append(walked)
        else:
            looped: list[int] = []
            begun, tried = pos, _TRIED if end - pos > _WALK_BYTES else _LOOPED
            pos = _loop(
                data,
                pos,
                end,
                number=number,
                max_payload=max_payload,
                most=tried,
                pieces=pieces,
                lengths=looped,
            )
            if len(looped) == tried and end - pos > _WALKED_FIRST // _TRIED * (pos - begun):
                window = _WALKED_FIRST
            lengths.append(looped)
        number += len(lengths[-1])
    count = number - first
    if count < 2:
        return None, start
    column = np.array(lengths[0] if len(lengths) == 1 else np.concatenate(lengths), np.int64)
    return Block(first, column, b"".join(pieces), pos - start), pos


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
    most: int,
    pieces: list[bytes | memoryview],
    lengths: list[int],
) -> int:
    """Take up to ``most`` plain frames that go on at ``number``; the position behind them."""
    add_piece = pieces.append
    add_length = lengths.append
    decode = varint.decode
    for expected in range(number, number + most):
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


def _walk(
    data: bytes,
    pos: int,
    end: int,
    number: int,
    max_payload: int,
    most: int,
    pieces: list[bytes | memoryview],
) -> tuple[NDArray[np.int64], int]:
    """Up to ``most`` plain frames from ``pos`` on, the first of which is known to be one: the
    lengths of their payloads, and the position behind them.

    The loop takes whatever it finds for the length of a plain frame; what follows from one that
    was none is cut off. It stops at lengths of more than three bytes.
    """
    template = b"\x04" + varint.encode(number) + _PLAIN
    digits, width = len(template) - 1 - len(_PLAIN), len(template)
    found: list[int] = []  # where the lengths are
    add = found.append
    at = pos + width
    try:
        for _ in range(min(most, (1 << 7 * digits) - number)):  # numbers of one size
            length = data[at]
            add(at)
            if length < 0x80:
                at += length + 1 + width
                continue
            more = data[at + 1]
            if 0 < more < 0x80:
                at += (length - 0x80 | more << 7) + 2 + width
            elif more and 0 < data[at + 2] < 0x80:
                at += (length - 0x80 | more - 0x80 << 7 | data[at + 2] << 14) + 3 + width
            else:
                break
    except IndexError:
        pass
    if found and found[-1] == at:  # of which there is no length
        found.pop()
    if not found:
        return np.empty(0, np.int64), pos
    octets = np.frombuffer(data, np.uint8)
    sizes = np.array([*found, at], np.int64)
    starts, stops = sizes[:-1] - width, sizes[1:] - width
    long = octets[sizes[:-1]] >= 0x80
    begins = sizes[:-1] + 1 + long + (long & (octets[np.minimum(sizes[:-1] + 1, end - 1)] >= 0x80))
    lengths = stops - begins
    plain = (
        octets[starts[:, None] + np.arange(width)] == _heads(number, len(found), template, digits)
    ).all(axis=1)
    plain &= (stops <= end) & (lengths <= max_payload)
    count = len(found) if plain.all() else int(plain.argmin())
    if not count:
        return lengths[:0], pos
    stop = int(stops[count - 1])
    source = memoryview(data) if stop - pos > _LARGE * count else data
    spans = zip(begins[:count].tolist(), stops[:count].tolist(), strict=True)
    pieces += [source[first:last] for first, last in spans]
    return lengths[:count], stop


def frame_sizes(
    first: int, payloads: Sequence[bytes], headers: HeaderColumn | None = None
) -> Iterator[int]:
    """The bytes of each MESSAGE frame of ``payloads`` without attachments, numbered from ``first``
    on."""
    regions = repeat(b"\x00", len(payloads)) if headers is None else headers.regions
    for number, (payload, region) in enumerate(zip(payloads, regions, strict=True), first):
        length = len(payload)
        head = 2 + len(varint.encode(number)) + len(region) + len(varint.encode(length))
        yield head + length


def runs(
    first: int, payloads: Sequence[bytes], headers: HeaderColumn | None, most: int
) -> Iterator[tuple[int, int]]:
    """Cut messages in a row, numbered from ``first``, into runs whose frames have ``most`` bytes at
    most, or that are one message with more: ``[start, stop)`` of ``payloads``."""
    start = size = 0
    for i, frame in enumerate(frame_sizes(first, payloads, headers)):
        if i > start and size + frame > most:
            yield start, i
            start, size = i, 0
        size += frame
    if start < len(payloads):
        yield start, len(payloads)


def encode_block(
    first: int, payloads: Sequence[bytes], headers: HeaderColumn | None = None
) -> bytes:
    """The MESSAGE frames of ``payloads`` without attachments, numbered from ``first`` on."""
    if headers is not None:
        return _encode_with_headers(first, payloads, headers)
    count = len(payloads)
    size = len(payloads[0]) if payloads else 0
    if count >= MATRIX_LEAST and size <= 1 << 12 and all(len(p) == size for p in payloads):
        return _encode_equal(first, payloads, size)
    encode = varint.encode
    out = []
    for head, payload in zip(beginnings(first, count, _PLAIN), payloads, strict=True):
        out.append(head + encode(len(payload)))
        out.append(payload)
    return b"".join(out)


def _encode_with_headers(first: int, payloads: Sequence[bytes], headers: HeaderColumn) -> bytes:
    encode = varint.encode
    out = []
    heads = beginnings(first, len(payloads))
    for head, region, payload in zip(heads, headers.regions, payloads, strict=True):
        out.append(head + region + b"\x00" + encode(len(payload)))
        out.append(payload)
    return b"".join(out)


def beginnings(first: int, count: int, behind: bytes = b"") -> Iterator[bytes]:
    """Tag and number of ``count`` frames, each with ``behind`` behind it."""
    if count < MATRIX_LEAST:
        yield from (b"\x04" + varint.encode(first + i) + behind for i in range(count))
        return
    stop = first + count
    while first < stop:
        number = varint.encode(first)
        digits = len(number)
        alike = min(stop, 1 << 7 * digits) - first
        template = b"\x04" + number + behind
        heads = _heads(first, alike, template, digits)
        yield from heads.view(f"V{len(template)}").ravel().tolist()
        first += alike


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
