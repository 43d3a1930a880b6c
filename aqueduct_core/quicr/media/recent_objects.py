"""Whether an object that comes again has the bytes of before, without keeping them.

A publisher that starts again may send others under the same numbers. That is seen of the objects
that came last, when they come again as one fragment, or in their order of bytes from the first on,
as on a stream; fragments that are repeated out of order show nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple
from zlib import crc32

from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position

RECENT_OBJECTS = 512
RECENT_BYTES = 400
"""What one of them costs."""
REPEATED = 64
"""Objects that come again in pieces at the same time."""
_SHIFT = 32


class _Start(NamedTuple):
    """Of an object that comes again: how many bytes came, and their checksum."""

    size: int = 0
    check: int = 0

    def plus(self, data: bytes) -> _Start:
        return _Start(self.size + len(data), crc32(data, self.check))


_NOTHING = _Start()


class RecentObjects:
    """The content of the last `RECENT_OBJECTS` that were complete, holes aside."""

    __slots__ = ("_checks", "_repeated")

    def __init__(self) -> None:
        self._checks: OrderedDict[Position, int] = OrderedDict()
        """Size and checksum in one number, as of `_content`."""
        self._repeated: OrderedDict[Position, _Start] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return (len(self._checks) + len(self._repeated)) * RECENT_BYTES

    def add(self, position: Position, payload: bytes) -> None:
        """An object is complete."""
        self._checks[position] = _content(len(payload), crc32(payload))
        if len(self._checks) > RECENT_OBJECTS:
            self._checks.popitem(last=False)

    def difference(self, fragment: Fragment) -> str | None:
        """How the object of a fragment that comes again differs from before; None: not, as far as
        is known. Once for each object."""
        position = fragment.position
        before = self._checks.get(position)
        if before is None or fragment.is_hole:
            return None
        so_far = _NOTHING if not fragment.offset else self._repeated.pop(position, _NOTHING)
        if so_far.size != fragment.offset:
            return None
        again = so_far.plus(fragment.data)
        size = before >> _SHIFT
        if again.size <= size and not fragment.last:
            self._repeated[position] = again
            if len(self._repeated) > REPEATED:
                self._repeated.popitem(last=False)
            return None
        if _content(*again) == before:
            return None
        del self._checks[position]
        if again.size != size:
            return f"it has {again.size} bytes, and had {size} before"
        return f"its {size} bytes are others than before"


def _content(size: int, check: int) -> int:
    return size << _SHIFT | check
