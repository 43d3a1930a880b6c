"""A set of whole numbers for those that lie close to each other with holes everywhere.

Each number costs a bit: blocks of `BLOCK` numbers are kept as whole numbers of that many bits, and
blocks that are full as ranges. So every third number takes 1/30 of what its ranges would, and a
set without holes is one range.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from aqueduct_core.primitives.ranges import Range, RangeSet

BLOCK = 512
_FULL = (1 << BLOCK) - 1


class NumberSet:
    """``len`` is the number of entries: blocks with holes, and runs of full blocks.

    An entry, as `entries` gives it and `merge` takes it, is a pair ``(first, stop)`` of a range of
    numbers, or ``(block, -bits)``: bit ``i`` stands for the number ``block * BLOCK + i``. No
    operation but `add` and `missing`, which cost a little for each block, depends on the length of
    a range.
    """

    __slots__ = ("_blocks", "_full")

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}
        self._full = RangeSet()

    def __len__(self) -> int:
        return len(self._blocks) + len(self._full)

    def __contains__(self, number: int) -> bool:
        block, bit = divmod(number, BLOCK)
        return block in self._full or bool(self._blocks.get(block, 0) >> bit & 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumberSet):
            return NotImplemented
        return self._blocks == other._blocks and self._full == other._full

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"NumberSet({list(self.entries())!r})"

    @property
    def stop(self) -> int:
        """One above the highest number; 0 when empty."""
        highest = max(self._blocks, default=-1)
        if self._full.stop > highest:
            return self._full.stop * BLOCK
        return highest * BLOCK + self._blocks[highest].bit_length()

    def add(self, first: int, stop: int) -> None:
        """Add the numbers ``[first, stop)``."""
        for block, bits in _blocks(first, stop):
            self._set(block, bits)

    def missing(self, first: int, stop: int) -> list[Range]:
        """The pieces of ``[first, stop)`` that are not in the set."""
        found: list[Range] = []
        for block, wanted in _blocks(first, stop):
            if block in self._full:
                continue
            for low, high in _ranges(wanted & ~self._blocks.get(block, 0)):
                low, high = low + block * BLOCK, high + block * BLOCK
                if found and found[-1][1] == low:
                    found[-1] = (found[-1][0], high)
                else:
                    found.append((low, high))
        return found

    def merge(self, first: int, second: int) -> None:
        """Add an entry, or any range of numbers."""
        if second < 0:
            self._set(first, -second & _FULL)
            return
        low, high = -(-first // BLOCK), second // BLOCK
        if low >= high:
            self.add(first, second)
            return
        self.add(first, low * BLOCK)
        self.add(high * BLOCK, second)
        self._full.add(low, high)
        for block in [b for b in self._blocks if low <= b < high]:
            del self._blocks[block]

    def entries(self) -> Iterator[Range]:
        """All of it, ascending."""
        both = [(block, -bits) for block, bits in self._blocks.items()]
        both += [(low, high - low) for low, high in self._full]
        for block, what in sorted(both):
            yield (block, what) if what < 0 else (block * BLOCK, (block + what) * BLOCK)

    def drop_lowest(self, count: int) -> int:
        """Take the ``count`` lowest entries out; the number behind them. There are so many."""
        behind = 0
        for first, second in list(islice(self.entries(), count)):
            if second < 0:
                del self._blocks[first]
                behind = (first + 1) * BLOCK
            else:
                self._full.remove(first // BLOCK, second // BLOCK)
                behind = second
        return behind

    def _set(self, block: int, bits: int) -> None:
        if block in self._full:
            return
        bits |= self._blocks.get(block, 0)
        if bits == _FULL:
            self._blocks.pop(block, None)
            self._full.add(block, block + 1)
        elif bits:
            self._blocks[block] = bits


def _blocks(first: int, stop: int) -> Iterator[tuple[int, int]]:
    """The blocks that ``[first, stop)`` touches, each with its bits."""
    while first < stop:
        block, bit = divmod(first, BLOCK)
        count = min(stop - first, BLOCK - bit)
        yield block, ((1 << count) - 1) << bit
        first += count


def _ranges(bits: int) -> Iterator[Range]:
    """The runs of ones."""
    at = 0
    while bits:
        zeros = (bits & -bits).bit_length() - 1
        bits >>= zeros
        ones = (~bits & (bits + 1)).bit_length() - 1
        bits >>= ones
        at += zeros
        yield at, at + ones
        at += ones
