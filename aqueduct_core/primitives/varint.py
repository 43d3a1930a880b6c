"""Variable-length integers: LEB128, shortest form, at most 64 bits (AQ-VARINT-1…4)."""

from __future__ import annotations

DECODE_LIMIT = 1 << 64
ENCODE_LIMIT = 1 << 63
"""Nothing at or above it is ever emitted: up to there all known forms are the same bytes."""


class NeedMore(Exception):
    """The bytes end before the value does; ``upto`` is the length of data wanted at least."""

    def __init__(self, upto: int) -> None:
        self.upto = upto


class Malformed(Exception):
    """The bytes can never become a value, whatever follows."""


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL = (
    *(bytes((value,)) for value in range(1 << 7)),
    *(bytes((low | 0x80, high)) for high in range(1, 1 << 7) for low in range(1 << 7)),
)


def encode(value: int) -> bytes:
    """The shortest encoding of ``value``.

    Raises:
        ValueError: below 0, or at or above 2^63 (AQ-VARINT-3).
    """
    if 0 <= value < 1 << 14:
        return _SMALL[value]
    if not 0 <= value < ENCODE_LIMIT:
        raise ValueError(f"a varint must lie in [0, 2^63), not {value}")
    return _encode(value)


def decode(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The value that starts at ``data[pos]``, and the position behind it.

    Raises:
        NeedMore: it runs past ``end``.
        Malformed: over 64 bits, or not the shortest form (AQ-VARINT-2).
    """
    if pos >= end:
        raise NeedMore(pos + 1)
    value = data[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    shift = 7
    while True:
        if pos >= end:
            raise NeedMore(pos + 1)
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            raise Malformed("a varint of more than 10 bytes")
    if byte == 0:
        raise Malformed("a varint that is not in its shortest form")
    if value >= DECODE_LIMIT:
        raise Malformed("a varint over 64 bits")
    return value, pos
