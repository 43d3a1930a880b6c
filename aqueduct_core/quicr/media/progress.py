"""Which objects of a media are here.

Positions are counted as numbers (`Position.number`), and what is here are ranges of them. How many
objects a group has is learned from the next one (Q13); then the numbers between its last object and
the next group count as here, so a media without holes is one number, in however many groups.
"""

from __future__ import annotations

from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.quicr.media.position import (
    BEGIN,
    ID_BITS,
    Position,
    PositionRange,
    at_number,
    range_of,
)

RANGES = 1024
"""Stretches with holes before them that are kept, of about 100 bytes: a sender who scatters its
objects must not cost more. A path that loses 5 % of 10,000 objects a second, and repeats them
after 200 ms, has a hundred holes."""
RANGE_BYTES = 100
RECENT_GROUPS = 256
"""Groups whose told size is remembered: an object beyond it may still come, since the prototype
counts one too few (K4), and the first of the next group may overtake it."""


class MediaProgress:
    """The objects of one media that are here, in bounded memory.

    ``position in progress``: it is here, or given up, or there is no such object.

    Args:
        begin: where it begins; all before counts as here.
    """

    __slots__ = ("_ahead", "_beyond", "_final", "_front", "_sizes")

    def __init__(self, begin: Position = BEGIN) -> None:
        self._front = begin.number
        self._final: int | None = None
        self._ahead = RangeSet()
        """What is here behind the front; each range has a hole before it."""
        self._sizes: dict[int, int] = {}
        """How many objects recent groups have, as the next one said."""
        self._beyond = RangeSet()
        """Objects that came of these groups, and are more than that."""

    @property
    def front(self) -> Position:
        """The next position in media order that is not here; never goes back. As long as the size
        of a group is not known, it stands behind the last of its objects."""
        return at_number(self._front)

    @property
    def final(self) -> Position | None:
        """The final point, where it is known."""
        return None if self._final is None else at_number(self._final)

    @property
    def complete(self) -> bool:
        """Whether all up to the final point is here, or was given up."""
        return self._final is not None and self._front >= self._final

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return (len(self._ahead) + len(self._beyond) + len(self._sizes)) * RANGE_BYTES

    def __contains__(self, position: Position) -> bool:
        number = position.number
        size = self._sizes.get(position.group)
        if size is not None and position.object >= size:
            return number in self._beyond
        return number < self._front or number in self._ahead

    def is_before_front(self, position: Position) -> bool:
        """Whether the media is on behind this position, in its order."""
        return position.number < self._front

    def add(self, position: Position) -> PositionRange | None:
        """An object is here. The oldest hole, if it had to be given up for this: there are `RANGES`
        of them already."""
        number = position.number
        if number == self._front and not self._ahead:
            self._front += 1
            return None
        size = self._sizes.get(position.group)
        if size is not None and position.object >= size:
            self._beyond.add(number, number + 1)
            return self._extend() if len(self._beyond) > RANGES else None
        return self._fill(number, number + 1)

    def note_previous(self, group: int, count: int | None) -> PositionRange | None:
        """The first object of ``group`` says how many the group before has (Q13); None: it does not
        know. The oldest hole, if it had to be given up, as of `add`.

        The first word counts. Where more of them were seen already, there are as many (K4).
        """
        before = group - 1
        start, stop = before << ID_BITS, group << ID_BITS
        if count is None or stop <= self._front or before in self._sizes:
            return None
        seen = self._ahead.within(start, stop)
        highest = seen[-1][1] if seen else max(self._front, start)
        if highest == stop:
            return None
        self._sizes[before] = count = max(count, highest - start)
        if len(self._sizes) > RECENT_GROUPS:
            oldest = next(iter(self._sizes))
            del self._sizes[oldest]
            self._beyond.remove(oldest << ID_BITS, (oldest + 1) << ID_BITS)
        return self._fill(start + count, stop)

    def skip_to(self, position: Position) -> list[PositionRange]:
        """All before counts as here: it is given up, or the start point says that the media begins
        there, which may come late (Q15). The holes that there were before it."""
        stop = position.number
        if stop <= self._front:
            return []
        holes = self._ahead.missing(self._front, stop)
        self._move(stop)
        return [range_of(*hole) for hole in holes]

    def finish(self, final: Position) -> None:
        """The final point (Q9, Q19). Of several the furthest counts."""
        if self._final is None or final.number > self._final:
            self._final = final.number

    def missing(self, stop: Position) -> list[PositionRange]:
        """What is not here before ``stop``, in media order."""
        return [range_of(*hole) for hole in self._ahead.missing(self._front, stop.number)]

    def _extend(self) -> PositionRange | None:
        """Make the lowest of the objects beyond the size of their group part of it."""
        start, stop = next(iter(self._beyond))
        self._beyond.remove(start, stop)
        group = start >> ID_BITS
        behind = (group << ID_BITS) + self._sizes[group]
        self._sizes[group] = stop - (group << ID_BITS)
        return range_of(behind, start) if behind < start else None

    def _fill(self, start: int, stop: int) -> PositionRange | None:
        front, ahead = self._front, self._ahead
        if start > front:
            ahead.add(start, stop)
            if len(ahead) <= RANGES:
                return None
            given_up = range_of(front, ahead.first)
            self._move(ahead.first)
            return given_up
        if stop > front:
            self._move(stop)
        return None

    def _move(self, front: int) -> None:
        self._front = self._ahead.lowest_missing(front)
        self._ahead.remove(0, self._front)
