"""Keeps the connections of a listener within the memory that is theirs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aqueduct_core.engine.engine import Footprint
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.logs.refusals import RefusalLog
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.memory_budget import MemoryBudget, Proof, Remedy

INTERVAL = 0.01
"""Seconds between two charges of a connection, at least: what they hold by then is bounded by what
is taken in in that time, and a turn costs nothing for it."""
KIND = "connections closed for want of memory"


@dataclass(slots=True)
class GuardCounts:
    """Totals. ``evicted``: connections closed to free what they held, or because their peer lets
    too much wait for it; ``held_back``: how often one was given no credit for a while."""

    evicted: int = 0
    held_back: int = 0


class MemoryGuard:
    """Charges drivers to a budget shortly after they had a turn, and has those give way who must.

    Args:
        limit: bytes of all connections together.
        outgoing: bytes, with those of objects, that may wait for one peer to take or acknowledge
            them; None: no bound but ``limit``.
        queued: the bytes that wait for the next turn of a driver.
        later: ``later(seconds, call)`` as of an event loop; never calls at once.
    """

    def __init__(
        self,
        limit: int,
        outgoing: int | None,
        refusals: RefusalLog,
        queued: Callable[[Driver], int],
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        self.budget: MemoryBudget[Driver] = MemoryBudget(limit)
        self.counts = GuardCounts()
        self._outgoing = outgoing
        self._refusals = refusals
        self._queued = queued
        self._later = later
        self._touched: dict[Driver, None] = {}
        self._called = False

    def touch(self, driver: Driver) -> None:
        """It had a turn, and may hold more by it, or less."""
        self._touched[driver] = None
        if not self._called:
            self._look_soon()

    def forget(self, driver: Driver) -> None:
        """It is closed."""
        self._touched.pop(driver, None)
        self.budget.release(driver)
        if self.budget.recovered and not self._called:
            self._look_soon()

    def refusal(self) -> str | None:
        """Why nobody new may connect now; None: they may."""
        budget = self.budget
        if not budget.short:
            return None
        return f"{budget.used} of {budget.limit} bytes for connections are in use (limits.memory)"

    def _look_soon(self) -> None:
        self._called = True
        self._later(INTERVAL, self._look)

    def _look(self) -> None:
        self._called = False
        touched, self._touched = self._touched, {}
        for driver in touched:
            self._charge(driver)
        self._relieve()

    def _charge(self, driver: Driver) -> None:
        link = driver.link
        if self._outgoing is not None and link.outgoing > self._outgoing:
            self._close(driver, _stuffed(link.outgoing))
            return
        proof = Proof.ADMITTED if link.admitted else Proof.STRANGER
        if link.lost is not None:
            proof = Proof.LINGERS
        size, waiting = driver.footprint
        self.budget.charge(driver, Footprint(size + self._queued(driver), waiting), proof)

    def _relieve(self) -> None:
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
