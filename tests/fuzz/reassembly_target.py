"""Target: pieces of a stream in any order through ``Reassembly``, and a dictionary of bytes.

Invariant: behind every piece both have given on the same bytes, up to the same position, and keep
the same bytes in the same ranges; of bytes that came in two forms one of them is given on. One
range too many is refused exactly when the dictionary has it, and changes nothing. Pieces are kept
in their order, apart, joined where their bound allows it, and ``held`` counts their bytes.
"""

from __future__ import annotations

from aqueduct_core.primitives import reassembly
from aqueduct_core.primitives.reassembly import Reassembly, TooScattered

LONGEST = 16
"""Bytes of a piece."""
REACH = 64
"""How far before and behind the position a piece may begin."""
JOINED = (1, 3, 8, 16, 40, 1 << 14)
STEP = 3
"""Bytes of input for a piece: where it begins, how long it is, which form it has."""
_LENGTH = 1 << 14
_FORMS = [bytes(form << 7 | offset & 0x7F for offset in range(_LENGTH)) for form in range(2)]


def run(data: bytes) -> None:
    """The first byte is how many ranges are kept, the second how long pieces get."""
    if len(data) < 2:
        return
    joined = reassembly.JOINED
    reassembly.JOINED = JOINED[data[1] % len(JOINED)]
    try:
        _run(1 + data[0] % 8, data)
    finally:
        reassembly.JOINED = joined


def _run(limit: int, data: bytes) -> None:
    stream = Reassembly(limit)
    position = 0
    waiting: dict[int, int] = {}
    """The forms, as bits, in which the byte at an offset came."""
    for at in range(2, len(data) - 2, STEP):
        start = position + data[at] % (2 * REACH) - REACH
        size = data[at + 1] % (LONGEST + 1)
        form = data[at + 2]
        if start < 0:
            start = -start % LONGEST
        if form == 0xFF:
            stream.clear()
            waiting = {}
            assert not stream.held
            assert not stream.ranges
            continue
        form &= 1
        after = dict(waiting)
        for offset in range(max(start, position), start + size):
            after[offset] = after.get(offset, 0) | 1 << form
        reached = position
        while reached in after:
            reached += 1
        given = [after.pop(offset) for offset in range(position, reached)]
        ranges = sum(offset - 1 not in after for offset in after)
        try:
            out = stream.add(start, _FORMS[form][start : start + size])
        except TooScattered:
            assert ranges > limit, "refused without need"
            _check(stream, position, waiting)
            continue
        assert ranges <= limit, "one range too many"
        assert len(out) == len(given)
        for offset, (byte, forms) in enumerate(zip(out, given, strict=True), position):
            assert byte & 0x7F == offset & 0x7F, "a byte of another place"
            assert forms >> (byte >> 7) & 1, "a byte that never came"
        position, waiting = reached, after
        assert stream.ranges == ranges
        _check(stream, position, waiting)


def _check(stream: Reassembly, position: int, waiting: dict[int, int]) -> None:
    assert stream.position == position
    assert stream.held == len(waiting)
    behind, size = position - 1, 0
    for start, piece in zip(stream._starts, stream._pieces, strict=True):
        length = len(piece)
        assert length
        assert start > behind or (start == behind and size + length > reassembly.JOINED)
        for offset, byte in enumerate(piece, start):
            assert byte & 0x7F == offset & 0x7F
            assert waiting[offset] >> (byte >> 7) & 1
        behind, size = start + length, length
