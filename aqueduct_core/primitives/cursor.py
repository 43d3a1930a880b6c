"""A bounded reader over one region whose bytes are all there.

What runs past the region's end is malformed, never "need more" (AQ-VARINT-4): the enclosing
length said where the region stops.
"""

from __future__ import annotations

from aqueduct_core.primitives import varint
from aqueduct_core.primitives.varint import Malformed, NeedMore


class Cursor:
    """Reads values one after the other from ``data[pos:end]``."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, pos: int = 0, end: int | None = None) -> None:
        self.data = data
        self.pos = pos
        self.end = len(data) if end is None else end

    @property
    def exhausted(self) -> bool:
        return self.pos >= self.end

    def varint(self) -> int:
        """The next varint.

        Raises:
            Malformed: it is not well formed or runs past the region.
        """
        try:
            value, self.pos = varint.decode(self.data, self.pos, self.end)
        except NeedMore:
            raise Malformed("a varint runs past its region") from None
        return value

    def varbytes(self) -> bytes:
        """The next length-prefixed bytes (AQ-BYTES-1)."""
        region = self.region()
        return self.data[region.pos : region.end]

    def region(self) -> Cursor:
        """A cursor over the next length-prefixed bytes; this one moves behind them."""
        length = self.varint()
        start = self.pos
        if length > self.end - start:
            raise Malformed("varbytes run past their region")
        self.pos = start + length
        return Cursor(self.data, start, self.pos)


def varranges(cursor: Cursor) -> list[tuple[int, int]]:
    """Ranges ``(first, stop)`` as range length, gap, range length, … (AQ-RANGES-1).

    Zero is allowed only for the first and the last varint; an empty range yields nothing.
    """
    inner = cursor.region()
    values = []
    while not inner.exhausted:
        values.append(inner.varint())
    if any(value == 0 for value in values[1:-1]):
        raise Malformed("a zero inside varranges")
    ranges = []
    position = 0
    for i, length in enumerate(values):
        if i % 2 == 0 and length:
            ranges.append((position, position + length))
        position += length
    return ranges


def encode_varbytes(data: bytes) -> bytes:
    return varint.encode(len(data)) + data


def encode_varranges(ranges: list[tuple[int, int]]) -> bytes:
    """The varranges of sorted, disjoint, non-adjacent ``(first, stop)``."""
    out = []
    position = 0
    if ranges and ranges[0][0] > 0:
        out.append(varint.encode(0))
    for first, stop in ranges:
        if first > position:
            out.append(varint.encode(first - position))
        out.append(varint.encode(stop - first))
        position = stop
    return encode_varbytes(b"".join(out))
