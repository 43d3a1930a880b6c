"""One seed from the handshake to the end, on a virtual clock."""

from __future__ import annotations

import random
from typing import NamedTuple

from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.inputs import LinkReady, LinkRtt, StreamLimit
from tests.simulation import rest
from tests.simulation.app import App
from tests.simulation.ledger import Broken, Ledger, hold
from tests.simulation.network import Agenda, Network
from tests.simulation.scenario import OPERATIONS, Fault, Scenario, scenario

MOST_STEPS = 100_000
"""A world that takes more never comes to rest."""
MOST_TURNS = 100
"""Turns of both ends at one moment of the clock."""


class Figures(NamedTuple):
    steps: int
    seconds: float
    """Of virtual time."""
    messages: int
    deliveries: int
    channels: int


class World:
    """Both ends, their applications, the link and the clock."""

    def __init__(self, plan: Scenario, engine: type[AqueductEngine] = AqueductEngine) -> None:
        self.plan = plan
        self.now = 0.0
        self.steps = 0
        self.agenda = Agenda()
        self.draw = random.Random(plan.seed)
        configs = {Side.CLIENT: plan.client, Side.SERVER: plan.server}
        self.ledger = Ledger(configs)
        self.engines = {
            side: engine(side, ((b"k", b"v"),), config) for side, config in configs.items()
        }
        self.network = Network(plan, self.draw, self.agenda, self.engines)
        self.apps = {
            side: App(side, engine, plan, self.draw, self.agenda, self.ledger, lambda: self.now)
            for side, engine in self.engines.items()
        }
        self._left = plan.operations
        self._last_rest = 0.0

    # --- the loop -----------------------------------------------------------------------

    def run(self) -> Figures:
        """The whole life of the connection; Broken when a promise does not hold."""
        self._begin()
        self._settle()
        for app in self.apps.values():
            app.wind_down()
        self._settle()
        if self.plan.fault is Fault.STOP_MESSAGES:
            for app in self.apps.values():
                app.close_all()
            self._settle()
        self._end()
        return Figures(
            self.steps,
            self.now,
            self.ledger.messages,
            self.ledger.deliveries,
            len(self.ledger.channels),
        )

    def _begin(self) -> None:
        size = self.plan.datagram_size
        for side in Side:
            when = self.draw.choice((0.0, self.plan.latency))
            self.agenda.add(when, self._ready, side, size)
        self.agenda.add(0.0, self._operate)
        if self.plan.shrinks and size:
            length = self.plan.pace * self.plan.operations
            self.agenda.add(self.draw.random() * length, self._resize, size // 2)
            self.agenda.add(length, self._resize, size)
        self._turns()

    def _ready(self, side: Side, size: int) -> None:
        engine = self.engines[side]
        engine.handle(LinkReady(size), self.now)
        if self.plan.streams is not None:
            engine.handle(StreamLimit(self.plan.streams), self.now)
        if self.draw.random() < 0.5:
            engine.handle(LinkRtt(2 * self.plan.latency), self.now)

    def _resize(self, size: int) -> None:
        self.network.datagram_size = size

    def _operate(self) -> None:
        app = self.apps[self.draw.choice((Side.CLIENT, Side.SERVER))]
        (name,) = self.draw.choices(OPERATIONS, self.plan.weights)
        app.operate(name)
        fault = self.plan.fault
        if fault in (Fault.STOP_ANY, Fault.STOP_MESSAGES) and self.draw.random() < 0.15:
            self.network.stop(app.side)
        self._left -= 1
        if fault is Fault.CUT and self.draw.random() < 1.5 / self.plan.operations:
            if self.draw.random() < 0.7:
                self.network.cut()
            else:
                app.engine.shutdown(Code.NO_ERROR, "enough", self.now)
        if self._left:
            self.agenda.add(self.now + self.draw.expovariate(1 / self.plan.pace), self._operate)

    def _settle(self) -> None:
        """Run until nothing will happen any more."""
        while self._step():
            self.steps += 1
            hold(self.steps < MOST_STEPS, "the world never comes to rest")

    def _step(self) -> bool:
        """On to the next thing that happens; False: there is none."""
        self._turns()
        at = self.agenda.next_at
        for engine in self.engines.values():
            wake = engine.wake_at
            if wake is not None and (at is None or wake < at):
                at = wake
        if at is None:
            return False
        if at > self.now:
            self.now = self.network.now = at
        # the contract: all inputs that are here, and only then the deadlines
        self.agenda.run(self.now)
        for engine in self.engines.values():
            wake = engine.wake_at
            if wake is not None and wake <= self.now:
                engine.tick(self.now)
        self._turns()
        for side, engine in self.engines.items():
            rest.check_bounds(engine)
            hold(self.network.owed(side) >= 0, "more credit than bytes at", side.name)
            if engine.closed is not None:
                self._check_close(engine)
        return True

    def _turns(self) -> None:
        """Carry out actions and hand over events until neither end has any."""
        for _ in range(MOST_TURNS):
            busy = False
            for side, engine in self.engines.items():
                actions = engine.actions()
                if actions:
                    busy = True
                    self.network.carry(side, actions)
                if self.apps[side].read():
                    busy = True
            if not busy:
                return
        raise Broken("the ends keep each other busy without time going on")

    # --- the end ------------------------------------------------------------------------

    def _check_close(self, engine: AqueductEngine) -> None:
        """Two honest ends never close with an error; what the link did may excuse it."""
        closed = engine.closed
        assert closed is not None
        if closed.code == Code.NO_ERROR:
            return
        doubled = self.network.doubled > 0 and closed.code == Code.STATE
        eaten = self.plan.fault is Fault.STOP_ANY and closed.code == Code.HEADERS
        hold(doubled or eaten, engine.side.name, "closed:", closed)

    def _end(self) -> None:
        lost = any(engine.closed is not None for engine in self.engines.values())
        if self.plan.fault is Fault.STOP_ANY and not lost:
            # the link ate ends of channels, so some wait for ever; that costs no more than them
            self.network.cut()
            self._settle()
            lost = True
        if not lost:
            for side, engine in self.engines.items():
                rest.check_nothing_left(engine)
                rest.check_tombstones(engine)
                owed = self.network.owed(side)
                hold(owed == 0, side.name, "owes credit for", owed, "bytes")
            self.ledger.close(lost=False, ends_arrive=True)
            self.engines[Side.CLIENT].shutdown(0, "done", self.now)
            self._settle()
        else:
            self.ledger.close(lost=True, ends_arrive=self.plan.fault is not Fault.STOP_ANY)
        for side, engine in self.engines.items():
            hold(engine.closed is not None, side.name, "does not know that the connection is over")
            hold(self.apps[side].closed is not None, side.name, "was not told of the end")
            hold(not self.apps[side].sending, "channels without an end", self.apps[side].sending)
            hold(not self.apps[side].receiving, "channels without an end")
            rest.check_lost(engine)


def run_seed(seed: int, engine: type[AqueductEngine] = AqueductEngine) -> Figures:
    """Run one seed.

    Raises:
        Broken: a promise does not hold.
    """
    return World(scenario(seed), engine).run()
