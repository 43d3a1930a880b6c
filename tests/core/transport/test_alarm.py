"""Deadlines that are put off cost no turn, and a peer's silence is not believed unread."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from aqueduct_core.engine.actions import Action
from aqueduct_core.engine.inputs import Input
from aqueduct_core.transport import Driver
from aqueduct_core.transport.alarm import LOOK_AGAIN, LOSS_GRACE
from aqueduct_core.transport.link import Address, Link
from tests.core.transport.probe import Probe
from tests.support.virtual_loop import let_happen, run_virtually


class Waiting:
    """A link that has sent all, with a deadline for the answer of its peer or for something
    else."""

    unsent = 0
    ready = True
    early = backlogged = closed = False
    lost = None

    def __init__(self, timer: float, *, awaits: bool) -> None:
        self.timer: float | None = timer
        self.awaits = timer if awaits else None
        self.fired: list[float] = []

    def inputs(self) -> list[Input]:
        return []

    def apply(self, actions: list[Action], now: float) -> None:
        """Nothing is asked of it."""

    def transmit(self, now: float) -> list[tuple[bytes, Address]]:
        return []

    def receive(self, datagrams: list[tuple[bytes, Address]], now: float) -> None:
        """Nothing, which puts nothing off."""

    def fire(self, now: float) -> None:
        self.fired.append(now)
        self.timer = self.awaits = None


def on_waiting(link: Waiting, unread: Callable[[], bool]) -> Driver:
    engine = Probe(client=True)
    driver = Driver(
        cast(Link, link), ("127.0.0.1", 1),
        make_engine=lambda driver, now: (engine, lambda driver, events: None),
        send=lambda datagrams: None, on_turn=lambda driver: None, unread=unread,
    )  # fmt: skip
    driver.turn((), driver.now())
    return driver


def test_a_deadline_that_was_put_off_costs_no_turn() -> None:
    async def main() -> None:
        link = Waiting(1.0, awaits=False)
        driver = on_waiting(link, lambda: False)
        link.timer = 3.0
        driver.turn((), driver.now())
        before = driver.turns
        await let_happen(2.0)
        assert driver.turns == before
        await let_happen(2.0)
        assert link.fired == pytest.approx([3.0], abs=0.01)
        assert driver.turns == before + 1

    run_virtually(main())


def test_nothing_is_taken_for_lost_while_its_acknowledgement_may_be_unread() -> None:
    async def main() -> None:
        unread = True
        link = Waiting(1.0, awaits=True)
        driver = on_waiting(link, lambda: unread)
        await let_happen(1.0 + LOOK_AGAIN)
        driver.turn([(b"of somebody else's turn", driver.peer)], driver.now())
        assert link.fired == []
        unread = False
        await let_happen(2 * LOOK_AGAIN)
        assert link.fired == pytest.approx([1.0 + 2 * LOOK_AGAIN], abs=LOOK_AGAIN)

    run_virtually(main())


@pytest.mark.parametrize(("awaits", "late"), [(True, LOSS_GRACE), (False, 0.0)])
def test_whoever_floods_a_socket_puts_deadlines_off_for_a_moment(awaits: bool, late: float) -> None:
    async def main() -> None:
        link = Waiting(1.0, awaits=awaits)
        on_waiting(link, lambda: True)
        await let_happen(3.0)
        assert link.fired == pytest.approx([1.0 + late], abs=1.1 * LOOK_AGAIN)

    run_virtually(main())
