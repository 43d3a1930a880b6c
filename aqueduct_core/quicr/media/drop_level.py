"""Which objects are given up while a path has no room for all of them (Q34, Q35, Q37).

Every connection has one level for all its media. At regular intervals it moves by one step: down,
so that more is given up, while media waits for longer than a threshold; up while nothing waits. The
steps are the drop priorities that were seen on the connection, so that it takes a few intervals to
find the right one, whichever numbers a publisher uses.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Literal, TypeAlias

from aqueduct_core.quicr.media.fragment import HOLE

FlagReading: TypeAlias = Literal["low", "high"]


def priority_of(flags: int, reading: FlagReading) -> int | None:
    """The drop priority of an object, of which higher ones go first; None: never to be dropped.

    A hole is not dropped: there is nothing left of it.
    """
    if flags == HOLE:
        return None
    if reading == "low":
        return flags >> 1 if flags & 1 else None
    return flags if flags >= 0x80 else None


class DropLevel:
    """The level of one connection.

    ``level``: objects of this drop priority and above are given up; None: none are.
    ``threshold`` and ``interval`` in seconds.
    """

    def __init__(self, reading: FlagReading, threshold: float, interval: float) -> None:
        self.level: int | None = None
        self._reading = reading
        self._threshold = threshold
        self._interval = interval
        self._priorities: list[int] = []
        self._due = 0.0
        self._waits = False

    def priority(self, flags: int) -> int | None:
        return priority_of(flags, self._reading)

    def drops(self, flags: int) -> bool:
        """Whether an object with these flags, which begins now, is given up."""
        priority = priority_of(flags, self._reading)
        if priority is None:
            return False
        known = self._priorities
        index = bisect_left(known, priority)
        if index == len(known) or known[index] != priority:
            known.insert(index, priority)
        return self.level is not None and priority >= self.level

    def due(self, waits: bool) -> float | None:
        """When `adjust` is wanted next; None while there is nothing to adjust. ``waits``: some
        media waits."""
        return self._due if waits or self.level is not None else None

    def adjust(self, delay: float | None, now: float) -> bool:
        """Move the level, where it is time to; whether the publisher should hear of it: the level
        or what it rests on is another now.

        Args:
            delay: seconds that the oldest fragment of all media waits; None: nothing waits.
        """
        if now < self._due:
            return False
        self._due = now + self._interval
        before = self.level, self._waits
        self._waits = delay is not None and delay > self._threshold
        if self._waits:
            self.level = self._lower()
        elif delay is None:
            self.level = self._higher()
        return self._waits or before != (self.level, self._waits)

    def _lower(self) -> int | None:
        known = self._priorities
        if not known:
            return None
        if self.level is None:
            return known[-1]
        return known[max(0, bisect_left(known, self.level) - 1)]

    def _higher(self) -> int | None:
        known = self._priorities
        if self.level is None or self.level >= known[-1]:
            return None
        return known[bisect_left(known, self.level) + 1]
