"""STREAM frames straight out of what a stream has to send (RFC 9000 section 19.8).

They are those of aioquic's ``get_frame``, always with a length of two bytes, and the stream is left
as that leaves it.
"""

from __future__ import annotations

from typing import Any

from aqueduct_core.transport.aioquic.sent_packets import SentFrame
from aqueduct_core.transport.aioquic.streams import Stream

STREAM, HAS_OFFSET, HAS_LENGTH, HAS_END = 0x08, 0x04, 0x02, 0x01
LENGTH = 0x4000
"""Marks a length of two bytes."""
FIXED = 1 + 2
"""Bytes of type and length."""

_TYPES = [bytes([STREAM | flags]) for flags in range(8)]


def varint(value: int) -> bytes:
    """As RFC 9000 section 16 writes it, the shortest way."""
    if value < 0x40:
        return value.to_bytes(1)
    if value < 0x4000:
        return (value | 0x4000).to_bytes(2)
    if value < 0x4000_0000:
        return (value | 0x8000_0000).to_bytes(4)
    return (value | 0xC000_0000_0000_0000).to_bytes(8)


def has_bytes(stream: Stream) -> bool:
    """It may send, and bytes wait to be sent."""
    sender = stream.sender
    return not stream.is_blocked and not sender.buffer_is_empty and bool(len(sender._pending))


def append_frame(
    stream: Stream, room: int, credit: int, parts: list[bytes | bytearray], frames: list[SentFrame]
) -> tuple[int, int]:
    """Append the next frame of a stream, of at most ``room`` bytes, if there is one; its size, and
    how many bytes of the stream are in it that were never sent before.

    Of those there may be ``credit`` at most.
    """
    sender = stream.sender
    if stream.is_blocked or sender.buffer_is_empty:
        return 0, 0
    pending: Any = sender._pending  # SentRanges
    number = varint(stream.number)
    fresh = 0
    if len(pending):
        start, stop = pending.first
        offset = varint(start) if start else b""
        most = room - FIXED - len(number) - len(offset)
        highest = sender.highest_offset
        stop = min(stop, start + most, highest + credit, stream.max_stream_data_remote)
        if stop <= start:
            return 0, 0
        pending.subtract(start, stop)
        if stop > highest:
            fresh = stop - highest
            sender.highest_offset = stop
        fin = stop == sender._buffer_fin
        base = sender._buffer_start
        data: bytes | bytearray = sender._buffer[start - base : stop - base]
    elif sender._pending_eof:
        start = stop = sender._buffer_fin
        offset = varint(start) if start else b""
        if room < FIXED + len(number) + len(offset):
            return 0, 0
        fin, data = True, b""
    else:
        sender.buffer_is_empty = True
        return 0, 0
    if fin:
        sender._pending_eof = False
    sender.buffer_is_empty = not (len(pending) or sender._pending_eof)
    flags = HAS_LENGTH | (HAS_OFFSET if start else 0) | fin
    parts += (_TYPES[flags], number, offset, (stop - start | LENGTH).to_bytes(2), data)
    frames.append((sender, start, stop, fin))
    return FIXED + len(number) + len(offset) + stop - start, fresh


def cut(
    stream: Stream,
    size: int,
    most: int,
    credit: int,
    payloads: list[bytes],
    frames: list[list[SentFrame]],
) -> int:
    """Append up to ``most`` payloads of ``size`` bytes with a frame each, of which only the last
    may be shorter; how many of the bytes were never sent before, at most ``credit``.

    The stream ``has_bytes``.
    """
    sender = stream.sender
    pending: Any = sender._pending  # SentRanges
    first, end = pending.first
    highest = sender.highest_offset
    end = min(end, highest + credit, stream.max_stream_data_remote)
    if end <= first:
        return 0
    number = varint(stream.number)
    fixed = FIXED + len(number)
    buffer, base, last = sender._buffer, sender._buffer_start, sender._buffer_fin
    start: int = first
    for _ in range(most):
        offset = varint(start) if start else b""
        stop = min(start + size - fixed - len(offset), end)
        fin = stop == last
        flags = HAS_LENGTH | (HAS_OFFSET if start else 0) | fin
        length = (stop - start | LENGTH).to_bytes(2)
        data = buffer[start - base : stop - base]
        payloads.append(b"".join((_TYPES[flags], number, offset, length, data)))
        frames.append([(sender, start, stop, fin)])
        start = stop
        if stop == end:
            break
    pending.subtract(first, start)
    if start == last:
        sender._pending_eof = False
    sender.buffer_is_empty = not (len(pending) or sender._pending_eof)
    if start <= highest:
        return 0
    sender.highest_offset = start
    return start - highest
