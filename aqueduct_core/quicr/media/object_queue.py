"""A media as its publisher makes it: objects in their order, until it is finished."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from aqueduct_core.quicr.faults import MediaError
from aqueduct_core.quicr.media.fragment import HOLE, MAX_OBJECT, Fragment
from aqueduct_core.quicr.media.position import BEGIN, MAX_ID, Position
from aqueduct_core.quicr.media.source import NextFragment


class ObjectQueue:
    """A `MediaSource` of whole objects, for one peer.

    ``size``: bytes of objects that wait; its publisher sees to it that they are not too many, and
    is called by ``on_advance`` when there are fewer.

    Args:
        start: the first object; not the beginning where those before it were published earlier.
    """

    def __init__(self, start: Position = BEGIN) -> None:
        self.start = start
        self.final: Position | None = None
        self.size = 0
        self.on_advance: Callable[[], None] | None = None
        self._next = start
        self._empty = True
        self._waiting: deque[NextFragment] = deque()

    @property
    def next(self) -> Position:
        """The next object of the group."""
        return self._next

    def append(self, position: Position, payload: bytes, flags: int, now: float) -> None:
        """The next object: in its group, or the first one of the next group (Q11).

        Raises:
            MediaError: another one, or one that cannot be carried (Q37, Q38).
        """
        group, number = self._next
        opens_group = not self._empty and position == (group + 1, 0)
        if position != self._next and not opens_group:
            also = "" if self._empty else f" or {Position(group + 1, 0)}"
            raise MediaError(f"object {position} comes where {self._next}{also} is next")
        if self.final is not None:
            raise MediaError(f"object {position} comes behind the end of the media")
        if max(position) > MAX_ID:
            raise MediaError(f"object {position}: groups and objects go to {MAX_ID}")
        if not payload:
            raise MediaError(f"object {position} is empty, and would be a hole")
        if len(payload) > MAX_OBJECT:
            raise MediaError(f"object {position} has {len(payload)} bytes, above {MAX_OBJECT}")
        if not 0 <= flags < HOLE:
            raise MediaError(f"flags {flags:#x} of object {position}: 0 to 0xfe, 0xff is a hole")
        previous = None
        if not position.object:
            previous = number if opens_group else 0
        fragment = Fragment(*position, 0, payload, True, flags, 0, previous)
        self._waiting.append(NextFragment(fragment, now))
        self.size += len(payload)
        self._next, self._empty = position.following, False

    def finish(self) -> None:
        """No object follows."""
        if self.final is None:
            self.final = BEGIN if self._empty else self._next

    def peek(self) -> NextFragment | None:
        return self._waiting[0] if self._waiting else None

    def advance(self) -> None:
        self.size -= len(self._waiting.popleft().fragment.data)
        if self.on_advance is not None:
            self.on_advance()
