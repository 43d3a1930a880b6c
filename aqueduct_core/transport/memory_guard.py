"""Keeps the connections of a listener within the memory that is theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aqueduct_core.engine.contract import Footprint
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.memory_budget import MemoryBudget, Proof, Remedy

KIND = "connections closed for want of memory"


@dataclass(slots=True)
class GuardCounts:
    """Totals. ``evicted``: connections closed to free what they held, or because their peer lets
    too much wait for it; ``held_back``: how often one was given no credit for a while."""

    evicted: int = 0
    held_back: int = 0


class MemoryGuard:
    """Charges drivers to a budget after each of their turns, and has those give way who must.

    Never in a turn, but by ``later``, which calls back soon.

    Args:
        limit: bytes of all connections together.
        outgoing: bytes, with those of objects, that may wait for one peer to take or acknowledge
            them; None: no bound but ``limit``.
    """

    def __init__(
        self,
        limit: int,
        outgoing: int | None,
        refusals: RefusalLog,
        later: Callable[[Callable[[], None]], object],
    ) -> None:
        self.budget: MemoryBudget[Driver] = MemoryBudget(limit)
        self.counts = GuardCounts()
        self._outgoing = outgoing
        self._refusals = refusals
        self._later = later
        self._stuffed: dict[Driver, int] = {}  # for whose peers too much waits
        self._called = False

    def charge(self, driver: Driver, queued: int) -> None:
        """A turn of it is over; ``queued`` bytes wait for its next one."""
        size, waiting = driver.footprint
        link = driver.link
        proof = Proof.ADMITTED if link.admitted else Proof.STRANGER
        if link.lost is not None:
            proof = Proof.LINGERS
        elif self._outgoing is not None and link.outgoing > self._outgoing:
            self._stuffed[driver] = link.outgoing
        budget = self.budget
        budget.charge(driver, Footprint(size + queued, waiting), proof)
        if (budget.short or budget.recovered or self._stuffed) and not self._called:
            self._called = True
            self._later(self._relieve)

    def forget(self, driver: Driver) -> None:
        """It is closed."""
        self.budget.release(driver)
        self._stuffed.pop(driver, None)

    def refusal(self) -> str | None:
        """Why nobody new may connect now; None: they may."""
        budget = self.budget
        if not budget.short:
            return None
        return f"{budget.used} of {budget.limit} bytes for connections are in use (limits.memory)"

    def _relieve(self) -> None:
        self._called = False
        stuffed, self._stuffed = self._stuffed, {}
        for driver, outgoing in stuffed.items():
            if not driver.closed:
                self._close(driver, _stuffed(outgoing))
        budget = self.budget
        while (found := budget.worst()) is not None:
            driver, remedy = found
            if remedy is Remedy.CLOSE:
                self._close(driver, _crowded(budget, driver))
            else:
                self.counts.held_back += 1
                budget.hold_back(driver)
                driver.link.hold_back(True)
        if budget.recovered:
            for driver in budget.resume():
                driver.link.hold_back(False)
                driver.kick()

    def _close(self, driver: Driver, error: ConnectFailed) -> None:
        """Say why, and hold nothing of it any more: not even to say it again."""
        if driver.lost is None:
            self.counts.evicted += 1
            self._refusals.add(KIND, "%s:%d: %s", *driver.peer[:2], error)
            driver.refuse(str(error))
        driver.abandon()
        self.forget(driver)


def _crowded(budget: MemoryBudget[Driver], driver: Driver) -> ConnectFailed:
    return ConnectFailed(
        "NO_MEMORY",
        f"{budget.used} of {budget.limit} bytes for connections are in use here, "
        f"{budget.holds(driver)} of them by this one",
        "Come again later or hold less at once; limits.memory of the server is the bound",
    )


def _stuffed(outgoing: int) -> ConnectFailed:
    return ConnectFailed(
        "NO_MEMORY",
        f"{outgoing} bytes wait here for this peer, which does not take them",
        "Read, acknowledge and give credit for streams and bytes",
    )
