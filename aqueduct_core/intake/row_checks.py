"""Rows that are known by their place in a source, one by one: is what comes again the same row?

They come in any order, with holes, and from any task, so no sum over a range tells it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.dedupe.source_rows import Numbers
from aqueduct_core.primitives.number_set import BLOCK

MAX_PLACES = 4 * 1024 * 1024
"""Places in sources whose rows are compared, four bytes each: rows with holes between them count as
the blocks of numbers that they lie in."""

Checks = NDArray[np.uint32]

Track = tuple[str, str]


class Compared(NamedTuple):
    """``other``: the lowest number that has other content, None where there is none. ``unknown``:
    so many are not remembered."""

    other: int | None
    unknown: int


class RowChecks:
    """32 bits of the content of each row, in memory only; what was noted first goes first.

    Other content is missed once in 2^32 times.
    """

    def __init__(self, most: int = MAX_PLACES) -> None:
        self._most = max(1, most // BLOCK)
        self._blocks: OrderedDict[tuple[Track, int], Checks] = OrderedDict()

    def note(self, track: Track, numbers: Numbers, contents: list[int]) -> None:
        """Rows with these numbers are stored now, and these are the checks of their contents."""
        checks = _known(contents)
        for block, at in _by_block(numbers):
            key = track, block
            kept = self._blocks.get(key)
            if kept is None:
                kept = self._blocks[key] = np.zeros(BLOCK, np.uint32)
                if len(self._blocks) > self._most:
                    self._blocks.popitem(last=False)
            kept[numbers[at] % BLOCK] = checks[at]

    def compare(self, track: Track, numbers: Numbers, contents: list[int]) -> Compared:
        """Rows with these numbers, which are stored, came once more."""
        checks = _known(contents)
        others: list[int] = []
        unknown = 0
        for block, at in _by_block(numbers):
            kept = self._blocks.get((track, block))
            if kept is None:
                unknown += len(at)
                continue
            stored = kept[numbers[at] % BLOCK]
            unknown += int((stored == 0).sum())
            others += numbers[at][(stored != 0) & (stored != checks[at])].tolist()
        return Compared(min(others, default=None), unknown)


def _known(contents: list[int]) -> Checks:
    """0 stands for what is not known."""
    checks = np.array(contents, np.uint32)
    checks[checks == 0] = 1
    return checks


def _by_block(numbers: Numbers) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Each block with the indexes of its numbers."""
    blocks = numbers // BLOCK
    order = np.argsort(blocks, kind="stable")
    found, firsts = np.unique(blocks[order], return_index=True)
    yield from zip(found.tolist(), np.split(order, firsts[1:]), strict=True)
