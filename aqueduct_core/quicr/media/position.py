"""Where an object stands in its media."""

from __future__ import annotations

from typing import NamedTuple

ID_BITS = 30
MAX_ID = (1 << ID_BITS) - 1
"""The largest number of a group, and of an object in its group: four bytes on the wire. Senders
of the prototype break on longer ones."""


class Position(NamedTuple):
    """A group and an object in it, both from 0 on. Compares in media order."""

    group: int
    object: int

    @property
    def number(self) -> int:
        """Both in one number below 2^60, in media order."""
        return (self.group << ID_BITS) + self.object

    @property
    def following(self) -> Position:
        """The next object of the group, if it has one more."""
        return Position(self.group, self.object + 1)

    def __str__(self) -> str:
        return f"({self.group}, {self.object})"


class PositionRange(NamedTuple):
    """Positions from ``start`` on, up to and without ``stop``.

    How many objects that are is not known where it spans groups: from (3, 7) up to (4, 0) are the
    objects of group 3 from 7 on, of which there may be none.
    """

    start: Position
    stop: Position

    def __str__(self) -> str:
        return f"from {self.start} up to {self.stop}"


BEGIN = Position(0, 0)
"""Where a media starts that names no start point."""


def at_number(number: int) -> Position:
    """The inverse of `Position.number`."""
    return Position(number >> ID_BITS, number & MAX_ID)


def range_of(start: int, stop: int) -> PositionRange:
    """The positions whose numbers are ``[start, stop)``."""
    return PositionRange(at_number(start), at_number(stop))
