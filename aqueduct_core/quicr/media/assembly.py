"""Objects out of their fragments, in whatever pieces and order these come (Q12).

What a relay may bring about by accident is no fault, since its connection carries many media that
can do nothing for it: two publishers of one URL, a publisher that starts again, a hop that gives up
an object of which another one has sent a part. What came first stays, and a fragment that
contradicts it is left out and told as a `Contradiction`, once for each object:

| of an object there are | comes                     | what is done            |
|------------------------|---------------------------|-------------------------|
| bytes                  | the same bytes again      | nothing                 |
| bytes                  | others in their place     | not seen: either counts |
| flags other than 0     | other flags               | the first count (K3)    |
| its end                | bytes behind it           | contradiction           |
| its end                | another end               | contradiction           |
| bytes                  | an end before them        | contradiction           |
| bytes                  | a hole: no more will come | it is a hole            |
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from aqueduct_core.primitives.reassembly import Reassembly, TooScattered
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import ID_BITS, Position, at_number

TINY = 2048
"""Bytes of a piece that is joined to the one before: an object of Python costs about 60."""
PARTIAL_BYTES = 900
"""What an object costs that is not complete, without its data."""
STRETCH_BYTES = 160
"""What a stretch of data costs with a hole before it."""
STRETCHES = 16_384
"""Of one object, with holes between them, that are kept: enough for one of 32 MiB in datagrams of
which every second is late. To put a fragment among so many takes 5 µs."""


class MediaObject(NamedTuple):
    """An object that is complete.

    ``payload``: None of a hole, which a hop has put in its place (Q36). ``flags``: the first that
    were not 0 (K3). ``queue_delay``: the most milliseconds that one of its fragments has waited in
    hops. ``received``: when it was complete, in seconds.
    """

    group: int
    object: int
    payload: bytes | None
    flags: int
    queue_delay: int
    received: float

    @property
    def position(self) -> Position:
        return Position(self.group, self.object)

    @property
    def size(self) -> int:
        """Bytes of its payload."""
        return len(self.payload) if self.payload is not None else 0


class Contradiction(Exception):
    """A fragment that does not go with those before; it is left out. The text says why."""


class _Partial:
    """What came of one object: its first bytes, and those that have a hole before them."""

    __slots__ = (
        *("_ahead", "_end", "_pieces", "_reach", "_stop"),
        *("contradicted", "flags", "queue_delay"),
    )

    def __init__(self) -> None:
        self.contradicted = False
        self.flags = 0
        self.queue_delay = 0
        self._pieces: list[bytes | bytearray] = []
        self._stop = 0  # behind the first bytes
        self._reach = 0  # behind the last that came
        self._end: int | None = None
        self._ahead: Reassembly | None = None

    @property
    def complete(self) -> bool:
        return self._stop == self._end

    @property
    def payload(self) -> bytes:
        return b"".join(self._pieces)

    @property
    def size(self) -> int:
        """Bytes of memory, about: bytearrays have an eighth to spare."""
        held, stretches = self._stop, 0
        if self._ahead is not None:
            held += self._ahead.held
            stretches = self._ahead.ranges
        return PARTIAL_BYTES + held + (held >> 3) + stretches * STRETCH_BYTES

    def add(self, offset: int, data: bytes, last: bool) -> None:
        """Raises: Contradiction, TooScattered; nothing of it is kept."""
        stop, end = offset + len(data), self._end
        if end is not None and (stop > end or (last and stop < end)):
            raise Contradiction(f"it ends at byte {stop}, and had {end} before")
        if last and stop < self._reach:
            raise Contradiction(f"it ends at byte {stop}, and had {self._reach} or more before")
        if self._ahead is not None:
            data = self._ahead.add(offset, data)
        elif offset > self._stop:
            self._ahead = Reassembly(STRETCHES, self._stop)
            data = self._ahead.add(offset, data)
        elif offset < self._stop:
            data = data[self._stop - offset :]
        if last:
            self._end = stop
        self._reach = max(self._reach, stop)
        self._stop += len(data)
        if len(data) >= TINY:
            self._pieces.append(data)
        elif self._pieces and isinstance(joined := self._pieces[-1], bytearray):
            joined += data
        elif data:
            self._pieces.append(bytearray(data))


class Assembler:
    """The objects of one media that are not complete.

    It has no bound of its own: `give_up_oldest` while ``size`` is too much. Nor does it know which
    objects were complete already: fragments of these are not for it.
    """

    __slots__ = ("_partials", "size")

    def __init__(self) -> None:
        self.size = 0
        """Bytes of memory, about."""
        self._partials: OrderedDict[int, _Partial] = OrderedDict()

    @property
    def oldest(self) -> Position | None:
        """Of the objects that are not complete, that of which a fragment came first."""
        for number in self._partials:
            return at_number(number)
        return None

    def add(self, fragment: Fragment, now: float) -> MediaObject | None:
        """Take a fragment; the object that is complete with it.

        Raises:
            Contradiction: it does not go with those before; nothing has changed. The first of an
                object; others are left out, too.
            TooScattered: there are `STRETCHES` of its object, which is given up.
        """
        group, object, offset, data, last, flags, queue_delay, _ = fragment
        number = group << ID_BITS | object
        partial = self._partials.get(number)
        if last and not offset and (partial is None or not data):
            if partial is not None:
                self.size -= self._partials.pop(number).size
            return MediaObject(group, object, data or None, flags, queue_delay, now)
        if fragment.is_void:
            return None
        if partial is None:
            partial = self._partials[number] = _Partial()
        else:
            self.size -= partial.size
        try:
            partial.add(offset, data, last)
        except TooScattered:
            del self._partials[number]
            raise
        except Contradiction:
            self.size += partial.size
            if partial.contradicted:
                return None
            partial.contradicted = True
            raise
        partial.flags = partial.flags or flags
        if queue_delay > partial.queue_delay:
            partial.queue_delay = queue_delay
        if not partial.complete:
            self.size += partial.size
            return None
        del self._partials[number]
        return MediaObject(group, object, partial.payload, partial.flags, partial.queue_delay, now)

    def give_up_oldest(self) -> None:
        """Forget what came of `oldest`, which is not None."""
        _, partial = self._partials.popitem(last=False)
        self.size -= partial.size
