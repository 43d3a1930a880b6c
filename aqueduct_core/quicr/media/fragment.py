"""Pieces of objects, as they travel."""

from __future__ import annotations

from typing import NamedTuple

from aqueduct_core.quicr.media.position import Position

HOLE = 0xFF
"""The flags of a hole."""
MAX_OBJECT = 64 << 20
"""Bytes of an object; no sender makes a larger one, and no receiver takes one."""


class Fragment(NamedTuple):
    """A stretch of one object: ``data`` from byte ``offset`` on.

    ``flags``: of the object; 0 also where a hop has lost them (QUICR K3). ``queue_delay``: the
    milliseconds that it has waited in hops before, where they say. ``previous``: how many objects
    the group before has; only with the first bytes of the first object of a group, and None where
    that is not known. ``last``: the object ends here.

    A hole stands for an object that a hop gave up: no data, ``last``, and the flags 0xFF. As the
    last one of its group it may stand for more: the hop need not know how many there were.
    """

    group: int
    object: int
    offset: int
    data: bytes
    last: bool
    flags: int = 0
    queue_delay: int = 0
    previous: int | None = None

    @property
    def position(self) -> Position:
        return Position(self.group, self.object)

    @property
    def stop(self) -> int:
        """The offset behind its data."""
        return self.offset + len(self.data)

    @property
    def is_hole(self) -> bool:
        return self.last and not self.data and not self.offset

    @property
    def is_void(self) -> bool:
        """It says nothing: no data, and its object goes on."""
        return not self.data and not self.last

    def __repr__(self) -> str:
        what = "hole" if self.is_hole else f"[{self.offset}:{self.stop}{']' if self.last else ')'}"
        return f"<Fragment ({self.group}, {self.object}) {what} flags={self.flags:#04x}>"


def hole(position: Position, previous: int | None = None) -> Fragment:
    """What is sent in place of an object that is given up."""
    return Fragment(*position, 0, b"", True, HOLE, 0, previous)
