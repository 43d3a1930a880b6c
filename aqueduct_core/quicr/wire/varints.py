"""Variable-length integers of QUIC (RFC 9000 section 16): two bits of length, big endian.

Not those of `aqueduct_core.primitives.varint`, which Aqueduct has. Here a value has up to four
forms, and all of them are accepted; the shortest is sent.
"""

from __future__ import annotations

from aqueduct_core.primitives.varint import NeedMore

VALUE_LIMIT = 1 << 62
"""Values are below it."""

_ONE = tuple(bytes((value,)) for value in range(1 << 6))
_LENGTHS = (1, 2, 4, 8)


def encode(value: int) -> bytes:
    """The shortest form of ``value``.

    Raises:
        ValueError: below 0, or at or above 2^62.
    """
    if value < 1 << 6:
        if value >= 0:
            return _ONE[value]
    elif value < 1 << 14:
        return (value | 1 << 14).to_bytes(2)
    elif value < 1 << 30:
        return (value | 2 << 30).to_bytes(4)
    elif value < VALUE_LIMIT:
        return (value | 3 << 62).to_bytes(8)
    raise ValueError(f"a varint must lie in [0, 2^62), not {value}")


def decode(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The value that starts at ``data[pos]``, and the position behind it. Whatever the bytes are,
    they are a value.

    Raises:
        NeedMore: it runs past ``end``.
    """
    if pos >= end:
        raise NeedMore(pos + 1)
    first = data[pos]
    if first < 0x40:
        return first, pos + 1
    stop = pos + _LENGTHS[first >> 6]
    if stop > end:
        raise NeedMore(stop)
    if first < 0x80:
        return (first & 0x3F) << 8 | data[pos + 1], stop
    bits = 8 * (stop - pos) - 2
    return int.from_bytes(data[pos:stop]) & (1 << bits) - 1, stop
