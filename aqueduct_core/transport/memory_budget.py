"""One account for the memory that peers cause, and who gives way when it runs short.

Every connection is charged with what it makes us hold, with the overhead of objects; no more than
the sum of that is known here. Above the high-water mark somebody has to give way, in this order:

| who                                                | what is done                             |
|----------------------------------------------------|------------------------------------------|
| its link is lost, and lingers                      | it is closed                             |
| a stranger: not admitted yet                       | it is closed                             |
| admitted, holds mostly what is of its own making   | it is closed                             |
| admitted, holds mostly messages that wait for us   | it is held back by flow control; closed  |
|                                                    | above the limit, if that did not help    |

Of each kind the one that holds most comes first, the oldest of several. Who is admitted gives way
only where it holds more than its part of the mark, so a flood of small ones ends at its own weight.
Between the mark and the limit there is room for what was granted to those that are held back. They
go on when we are done with half of what they had waiting, or all of them below the low-water mark.
"""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum, IntEnum, auto
from typing import Generic, NamedTuple, TypeVar

from aqueduct_core.engine.engine import Footprint

HIGH_WATER = 3 / 4
"""The share of the limit from which on somebody gives way."""
LOW_WATER = 5 / 8
"""The share at which all those who were held back go on."""
STEP = 8
"""Where nobody could give way, all are looked at again when what is in use has changed by one part
in 2 to the power of this."""

T = TypeVar("T", bound=Hashable)


class Proof(IntEnum):
    """What a connection has shown to be; who has shown least gives way first."""

    LINGERS = 0
    STRANGER = 1
    ADMITTED = 2


class Remedy(Enum):
    """What is done about a connection."""

    CLOSE = auto()
    HOLD_BACK = auto()


class Charge(NamedTuple):
    """What one connection holds. ``serial`` is lower, the older it is; ``held_back``: what waited
    for us when it was held back; None: it is not."""

    footprint: Footprint
    proof: Proof
    serial: int
    held_back: int | None = None

    @property
    def waits(self) -> bool:
        """Most of it are messages that we are not done with: a good producer may hold that."""
        return 2 * self.footprint.waiting >= self.footprint.size


class MemoryBudget(Generic[T]):
    """Bytes that connections ``T`` hold, of at most ``limit``.

    Holds: ``used`` is the sum of all charges. A charge costs the same however many there are; to
    find who gives way takes a walk over those that are not admitted, or else over all, which is not
    repeated before something has changed.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.high = int(limit * HIGH_WATER)
        self.low = int(limit * LOW_WATER)
        self.used = 0
        self._charges: dict[T, Charge] = {}
        self._unproven: dict[T, None] = {}  # those of them that are not admitted: a few hundred
        self._serial = 0
        self._held_back: set[T] = set()
        self._drained: set[T] = set()  # of these: half of what waited is done with
        self._in_vain: int | None = None  # so much was in use when nobody could give way

    def __len__(self) -> int:
        return len(self._charges)

    def __contains__(self, connection: T) -> bool:
        return connection in self._charges

    @property
    def short(self) -> bool:
        """Somebody has to give way, and nobody new may come."""
        return self.used > self.high

    @property
    def recovered(self) -> bool:
        """Some of those who are held back may go on."""
        return bool(self._drained) or (bool(self._held_back) and self.used <= self.low)

    def holds(self, connection: T) -> int:
        """The bytes that one of them is charged with."""
        charge = self._charges.get(connection)
        return 0 if charge is None else charge.footprint.size

    def charge(self, connection: T, footprint: Footprint, proof: Proof) -> None:
        """It holds so much now, in place of what it held before."""
        before = self._charges.get(connection)
        if before is None:
            self._serial += 1
            self.used += footprint.size
            self._charges[connection] = Charge(footprint, proof, self._serial)
            self._in_vain = None
        elif before.footprint != footprint or before.proof is not proof:
            self.used += footprint.size - before.footprint.size
            held_back = before.held_back
            self._charges[connection] = Charge(footprint, proof, before.serial, held_back)
            if held_back is not None and 2 * footprint.waiting <= held_back:
                self._drained.add(connection)
        if proof is not Proof.ADMITTED:
            self._unproven[connection] = None
        elif self._unproven:
            self._unproven.pop(connection, None)
        if self.used <= self.high:
            self._in_vain = None

    def release(self, connection: T) -> None:
        """It is gone, and holds nothing."""
        charge = self._charges.pop(connection, None)
        if charge is not None:
            self.used -= charge.footprint.size
        self._unproven.pop(connection, None)
        self._held_back.discard(connection)
        self._drained.discard(connection)
        self._in_vain = None

    def worst(self) -> tuple[T, Remedy] | None:
        """Who gives way next, and how; None: nobody needs to, or nobody can."""
        if not self.short:
            return None
        if self._in_vain is not None and abs(self.used - self._in_vain) < self.limit >> STEP:
            return None
        part = self.high // len(self._charges)
        found: tuple[T, Remedy] | None = None
        least: tuple[int, int, int] | None = None
        for connection in self._unproven or self._charges:
            charge = self._charges[connection]
            remedy = self._remedy(charge, part)
            if remedy is None:
                continue
            order = (charge.proof.value, -charge.footprint.size, charge.serial)
            if least is None or order < least:
                found, least = (connection, remedy), order
        self._in_vain = self.used if found is None else None
        return found

    def _remedy(self, charge: Charge, part: int) -> Remedy | None:
        if charge.proof is not Proof.ADMITTED:
            return Remedy.CLOSE
        if charge.footprint.size <= part:
            return None
        if not charge.waits:
            return Remedy.CLOSE
        if charge.held_back is None:
            return Remedy.HOLD_BACK
        return Remedy.CLOSE if self.used > self.limit else None

    def hold_back(self, connection: T) -> None:
        """It gets no more credit of flow control, until ``resume``."""
        charge = self._charges.get(connection)
        if charge is not None:
            self._charges[connection] = charge._replace(held_back=charge.footprint.waiting)
            self._held_back.add(connection)

    def resume(self) -> list[T]:
        """Take those who were held back and may go on."""
        resumed = list(self._held_back if self.used <= self.low else self._drained)
        self._held_back.difference_update(resumed)
        self._drained.clear()
        for connection in resumed:
            self._charges[connection] = self._charges[connection]._replace(held_back=None)
        self._in_vain = None
        return resumed
