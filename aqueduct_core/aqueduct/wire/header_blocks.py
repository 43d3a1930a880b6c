"""Many MESSAGE frames with headers at once, from wire bytes to columns.

Beside `blocks`, which takes what has none: frames with consecutive numbers and without attachments
are taken in one loop, and become one frame for all that follows. Whatever is not as it should be
ends the block, and the ordinary decoder goes on from there: it alone says what is wrong.
"""

from __future__ import annotations

import numpy as np

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.wire.blocks import beginnings
from aqueduct_core.aqueduct.wire.frames import Block
from aqueduct_core.engine.message_batch import Headers, ReceivedHeaders
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.varint import Malformed, NeedMore

_FEW = 8
"""Of these the numbers are expected one by one, of those that follow ``_STEP`` at once."""
_STEP = 128
_SPARSE = 16
"""Where fewer than one message in so many has headers, the block ends: `blocks` is quicker with
those that have none."""
_LAST_FIRST = (1 << 62) - (1 << 20)
"""Blocks start below it, so that none reaches the end of the numbers (AQ-FRAME-14)."""


def decode_header_block(
    data: bytes, start: int, end: int, config: Config, most: int
) -> tuple[Block | None, int]:
    """The frames from ``start`` on, the first of which has headers; at most so many of them.

    Returns None and ``start`` when there are fewer than two, or the first one has none.
    """
    try:
        first, pos = varint.decode(data, start + 1, end)
    except (NeedMore, Malformed):
        return None, start
    if most < 2 or pos >= end or data[pos] == 0 or first >= _LAST_FIRST:
        return None, start
    pieces: list[bytes] = []
    found: dict[int, Headers] = {}
    stop = start
    step = _FEW
    while (done := len(pieces)) < most:
        count, step = min(step, most - done), _STEP
        stop = _take(data, stop, end, first + done, count, config, pieces, found)
        if len(pieces) < done + count or len(found) * _SPARSE <= len(pieces):
            break
    if len(pieces) < 2:
        return None, start
    lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
    return Block(first, lengths, b"".join(pieces), stop - start, found), stop


def _take(
    data: bytes,
    pos: int,
    end: int,
    first: int,
    count: int,
    config: Config,
    pieces: list[bytes],
    found: dict[int, Headers],
) -> int:
    """Take frames numbered from ``first`` on, up to ``count`` of them and up to one that is not all
    here, has attachments or another number, or has something wrong; the position behind them."""
    decode = varint.decode
    most_bytes, most_payload = config.max_headers_bytes, config.max_payload_bytes
    most_parts = 2 * config.max_header_pairs
    try:
        for head in beginnings(first, count):
            at = pos + len(head)
            if at >= end or data[pos:at] != head:
                break
            size = data[at]
            at += 1
            if size >= 0x80:
                size, at = decode(data, at - 1, end)
            stop = at + size
            # the byte behind the headers is the length of the attachments
            if size > most_bytes or stop + 1 >= end or data[stop]:
                break
            parts = []
            while at < stop:
                size = data[at]
                at += 1
                if size >= 0x80:
                    size, at = decode(data, at - 1, end)
                parts.append(data[at : at + size])
                at += size
            if at != stop or len(parts) % 2 or len(parts) > most_parts:
                break
            size = data[stop + 1]
            at = stop + 2
            if size >= 0x80:
                size, at = decode(data, stop + 1, end)
            stop = at + size
            if stop > end or size > most_payload:
                break
            if len(parts) == 2:
                found[len(pieces)] = ReceivedHeaders(((parts[0], parts[1]),))
            elif parts:
                found[len(pieces)] = ReceivedHeaders(zip(parts[::2], parts[1::2], strict=True))
            pieces.append(data[at:stop])
            pos = stop
    except (NeedMore, Malformed):
        pass  # said by the ordinary decoder, when it is this frame's turn
    return pos
