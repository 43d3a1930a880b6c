"""One object as a cache has it: pieces that came, without overlaps, in the order of its bytes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

from aqueduct_core.quicr.media.fragment import Fragment

PIECE_BYTES = 500
OBJECT_BYTES = 900
"""Memory of a piece and of an object beside the data, with their places in the cache, about."""


class CachedPiece(NamedTuple):
    """A fragment that is kept; ``number``: in the order of arrival of its media."""

    fragment: Fragment
    received: float
    number: int


class CachedObject:
    """Pieces of one object.

    Holds: no two pieces share a byte, and no byte lies behind ``end``. What comes first stays:
    a relay may be told of an object by two senders that do not agree (Q12, Q21).
    """

    __slots__ = ("_held", "_highest", "_starts", "end", "flags", "pieces", "size")

    def __init__(self) -> None:
        self.pieces: list[CachedPiece] = []
        self.end: int | None = None
        """How many bytes it has, once its last piece is here."""
        self.flags = 0
        self.size = OBJECT_BYTES
        """Bytes of memory, about."""
        self._starts: list[int] = []
        self._held = 0
        self._highest = 0

    @property
    def complete(self) -> bool:
        return self._held == self.end

    @property
    def is_hole(self) -> bool:
        return self.end == 0

    @property
    def last_number(self) -> int:
        """Of the piece that came last."""
        return max(piece.number for piece in self.pieces)

    def piece_at(self, offset: int) -> CachedPiece | None:
        """The piece that begins there; the end, where that came without data of its own."""
        index = bisect_left(self._starts, offset)
        if index < len(self._starts) and self._starts[index] == offset:
            return self.pieces[index]
        return None

    def fresh(self, fragment: Fragment) -> list[Fragment]:
        """What of a fragment is not here yet, in fragments of their own; nothing of one that
        contradicts what is here. It has data, or is the last."""
        start, stop = fragment.offset, fragment.stop
        if self.end is not None:
            if stop > self.end or (fragment.last and stop < self.end):
                return []
        elif fragment.last and stop < self._highest:
            return []
        if fragment.is_hole and self.pieces:
            return []
        if not self.flags:
            self.flags = fragment.flags
        elif not fragment.flags:  # of a repeat of the prototype (K3)
            fragment = fragment._replace(flags=self.flags)
        if start >= self._highest and start < stop:
            return [fragment]
        return self._uncovered(fragment, start, stop)

    def add(self, piece: CachedPiece) -> None:
        """Keep one that is `fresh`."""
        fragment = piece.fragment
        start, stop = fragment.offset, fragment.stop
        if start >= self._highest:
            self._starts.append(start)
            self.pieces.append(piece)
        else:
            index = bisect_left(self._starts, start)
            self._starts.insert(index, start)
            self.pieces.insert(index, piece)
        self._held += stop - start
        self._highest = max(self._highest, stop)
        if fragment.last:
            self.end = stop
        self.size += PIECE_BYTES + stop - start

    def _uncovered(self, fragment: Fragment, start: int, stop: int) -> list[Fragment]:
        at = start
        out: list[Fragment] = []
        for index in range(max(0, bisect_right(self._starts, start) - 1), len(self.pieces)):
            fragment_here = self.pieces[index].fragment  # of thousands, maybe: no copy of them
            begin, end = fragment_here.offset, fragment_here.stop
            if begin >= stop:
                break
            if end <= at:
                continue
            if begin > at:
                out.append(_part(fragment, at, begin))
            at = max(at, end)
        if at < stop:
            out.append(_part(fragment, at, stop))
        elif fragment.last and self.end is None:
            out.append(_part(fragment, stop, stop))
        return out


def _part(fragment: Fragment, start: int, stop: int) -> Fragment:
    """Its bytes from ``start`` up to ``stop``, which are offsets in the object."""
    group, number, offset, data, last, flags, delay, previous = fragment
    return Fragment(
        group,
        number,
        start,
        data[start - offset : stop - offset],
        last and stop == offset + len(data),
        flags,
        delay,
        None if start else previous,
    )
