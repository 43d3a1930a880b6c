"""Messages that are stored, one by one, by their logical numbers: is what comes again the same one?

Numbers of a source come in any order, with holes, and from any task, so no sum over a range tells
it; of other channels a sum tells it only where all of a run came again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.engine.checksum import UNKNOWN, Checks
from aqueduct_core.primitives.number_set import BLOCK
from aqueduct_core.primitives.ranges import Numbers

MAX_PLACES = 4 * 1024 * 1024
"""Numbers whose messages are compared, four bytes each: those with holes between them count as the
blocks of numbers that they lie in."""

Track = tuple[str, str]

RowIndex: TypeAlias = slice | NDArray[np.int64]


class Compared(NamedTuple):
    """``others``: the numbers that have other content, the lowest first. ``unknown``: so many are
    not remembered."""

    others: Sequence[int]
    unknown: int


class RowChecks:
    """32 bits of the content of each message, in memory only; what was noted first goes first.

    Other content is missed once in 2^32 times. ``numbers`` are in the order of ``checks``.
    """

    def __init__(self, most: int = MAX_PLACES) -> None:
        self._most = max(1, most // BLOCK)
        self._blocks: OrderedDict[tuple[Track, int], Checks] = OrderedDict()

    def note(self, track: Track, numbers: Numbers | range, checks: Checks) -> None:
        """Messages with these numbers are stored now, and hold what these are the checks of."""
        for block, places, at in _by_block(numbers):
            key = track, block
            kept = self._blocks.get(key)
            if kept is None:
                kept = self._blocks[key] = _NOTHING.copy()
                if len(self._blocks) > self._most:
                    self._blocks.popitem(last=False)
            kept[places] = checks[at]

    def compare(self, track: Track, numbers: Numbers | range, checks: Checks) -> Compared:
        """Messages with these numbers, which are stored, came once more."""
        others: list[int] = []
        unknown = 0
        for block, places, at in _by_block(numbers):
            came = checks[at]
            kept = self._blocks.get((track, block))
            if kept is None:
                unknown += len(came)
                continue
            stored = kept[places]
            known = (stored != UNKNOWN) & (came != UNKNOWN)
            unknown += len(came) - int(known.sum())
            differs = known & (stored != came)
            if differs.any():
                others += (block * BLOCK + _PLACES[places][differs]).tolist()
        return Compared(sorted(others), unknown)


_PLACES = np.arange(BLOCK)
_NOTHING = np.full(BLOCK, UNKNOWN, np.uint32)


def _by_block(numbers: Numbers | range) -> Iterable[tuple[int, RowIndex, RowIndex]]:
    """Each block with the places in it, and the indexes of its numbers."""
    if isinstance(numbers, range):
        return _by_range(numbers.start, numbers.stop)
    blocks = numbers // BLOCK
    order = np.argsort(blocks, kind="stable")
    found, firsts = np.unique(blocks[order], return_index=True)
    parts = zip(found.tolist(), np.split(order, firsts[1:]), strict=True)
    return ((block, numbers[at] % BLOCK, at) for block, at in parts)


def _by_range(first: int, stop: int) -> list[tuple[int, RowIndex, RowIndex]]:
    parts: list[tuple[int, RowIndex, RowIndex]] = []
    at = 0
    while at < stop - first:
        block, low = divmod(first + at, BLOCK)
        count = min(BLOCK - low, stop - first - at)
        parts.append((block, slice(low, low + count), slice(at, at + count)))
        at += count
    return parts
