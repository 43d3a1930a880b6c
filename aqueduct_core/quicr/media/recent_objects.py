"""Whether an object that comes again has the bytes of before, without keeping them.

A publisher that starts again may send others under the same numbers. That is seen of the objects
that came last, when they come again as one fragment, or in their order of bytes from the first on,
as on a stream; fragments that are repeated out of order show nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple
from zlib import crc32

from aqueduct_core.quicr.media.assembly import MediaObject
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position

RECENT_OBJECTS = 512
RECENT_BYTES = 400
"""What one of them costs."""
REPEATED = 64
"""Objects that come again in pieces at the same time."""


class _Content(NamedTuple):
    """Of an object, or of its first bytes."""

    size: int
    check: int

    def plus(self, data: bytes) -> _Content:
        return _Content(self.size + len(data), crc32(data, self.check))


_NOTHING = _Content(0, 0)


class RecentObjects:
    """The content of the last `RECENT_OBJECTS` that were complete, holes aside."""

    __slots__ = ("_contents", "_repeated")

    def __init__(self) -> None:
        self._contents: OrderedDict[Position, _Content] = OrderedDict()
        self._repeated: OrderedDict[Position, _Content] = OrderedDict()

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return (len(self._contents) + len(self._repeated)) * RECENT_BYTES

    def add(self, whole: MediaObject) -> None:
        payload = whole.payload
        if payload is None:
            return
        self._contents[whole.position] = _Content(len(payload), crc32(payload))
        if len(self._contents) > RECENT_OBJECTS:
            self._contents.popitem(last=False)

    def difference(self, fragment: Fragment) -> str | None:
        """How the object of a fragment that comes again differs from before; None: not, as far as
        is known. Once for each object."""
        position = fragment.position
        before = self._contents.get(position)
        if before is None or fragment.is_hole:
            return None
        so_far = _NOTHING if not fragment.offset else self._repeated.pop(position, _NOTHING)
        if so_far.size != fragment.offset:
            return None
        again = so_far.plus(fragment.data)
        if again.size <= before.size and not fragment.last:
            self._repeated[position] = again
            if len(self._repeated) > REPEATED:
                self._repeated.popitem(last=False)
            return None
        if again == before:
            return None
        del self._contents[position]
        if again.size != before.size:
            return f"it has {again.size} bytes, and had {before.size} before"
        return f"its {before.size} bytes are others than before"
