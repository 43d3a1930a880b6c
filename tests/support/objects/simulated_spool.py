"""Owners and readers of one spool on a store that is far away, slow, refuses, forgets to answer,
and does late what was asked long ago. Virtual time; everything follows from the seed."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from aqueduct_core.spool.objects.reading import LogView, ObjectIndex, look, rows_at
from aqueduct_core.spool.objects.steps import get, run
from aqueduct_core.spool.objects.store import ObjectFound, Operation, Steps, StoreOutcome
from tests.support.objects.memory_store import MemoryStore, apply, one_by_one
from tests.support.objects.model_owner import CODEC, LOST, NAMES, ModelOwner, OwnerPlan

TIMEOUT = 1.0
"""Seconds after which an owner does not wait any longer."""


@dataclass(frozen=True, slots=True)
class StoreWeather:
    """Chances of one run: that an operation is refused, that its answer is lost, that it is late
    (and takes place behind the time-out); ``latency`` of most, seconds."""

    refused: float
    lost: float
    late: float
    latency: float


@dataclass
class SimulatedSpool:
    seed: int
    now: float = 0.0
    store: MemoryStore = field(default_factory=MemoryStore)
    owners: list[ModelOwner] = field(default_factory=list)
    dead: set[int] = field(default_factory=set)
    rows: dict[int, int] = field(default_factory=dict)
    reads: int = 0
    crashes: int = 0
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _serial: Any = field(default_factory=count)

    def run(self) -> None:
        """
        Raises:
            AssertionError: something that was acked is not found, or a row has changed.
        """
        chance = self._chance = random.Random(self.seed)
        self._weather = StoreWeather(
            *(chance.choice([0, 0.1, 0.3]), chance.choice([0, 0.1, 0.3])),
            *(chance.choice([0, 0.05, 0.3]), chance.choice([0.005, 0.05, 0.5])),
        )
        for i in range(chance.randint(2, 4)):
            window, seal = chance.choice([1, 2, 4]), chance.choice([0, 2, 3])
            plan = OwnerPlan(
                *("abcd"[i], chance.randint(0, 9), window, seal),
                trims=chance.random() < 0.5,
                read_ahead=chance.choice([1, 3]),
            )
            self._at(chance.uniform(0, 3 * i), lambda plan=plan: self._begin(plan))
        for _ in range(3):
            self._at(chance.uniform(0, 10), lambda: self._read())
        while self._queue:
            self.now, _, call = heapq.heappop(self._queue)
            call()
        self._finish()

    def counts(self) -> dict[str, int]:
        """What happened."""
        owners = self.owners
        return {
            "takeovers": sum(each.taken is not None for each in owners),
            "groups acked": sum(len(each.acked) for each in owners),
            "segments": sum(each.sealed for each in owners),
            "crashes": self.crashes,
            "owners fenced": sum(
                each.error is not None or (each.writer is not None and each.writer.fenced)
                for each in owners
            ),
            "operations": sum(len(each.issued) for each in owners),
            "rows read": len(self.rows),
        }

    def _finish(self) -> None:
        """Whoever comes last, on a store in good order, finds it all."""
        self._weather = StoreWeather(0, 0, 0, 0.001)
        last = self._begin(OwnerPlan("z", 1))
        while self._queue:
            self.now, _, call = heapq.heappop(self._queue)
            call()
        assert last.error is None, last.error
        assert len(last.acked) == 1
        for each in self.owners:
            assert each.error is None or each.error.subclass == "LOCKED", each.error
            for later in self.owners:
                if later.taken is not None and later.epoch > each.epoch:
                    lost = {(each.plan.life, number) for number in each.acked} - later.found
                    assert not lost, f"epoch {later.epoch} does not find {lost}"
        self._read()

    def _begin(self, plan: OwnerPlan) -> ModelOwner:
        owner = ModelOwner(plan, self.now, delay=0.1)
        self.owners.append(owner)
        number = len(self.owners) - 1
        self._carry_out(number, 0)
        if self._chance.random() < 0.5 and plan.life != "z":
            self._at(self._chance.uniform(0, 5), lambda: self._crash(number))
        return owner

    def _crash(self, number: int) -> None:
        self.dead.add(number)
        self.crashes += 1

    def _carry_out(self, owner: int, begin: int) -> None:
        """Send what an owner has issued since."""
        for number in range(begin, len(self.owners[owner].issued)):
            self._send(owner, number, self.owners[owner].issued[number])

    def _send(self, owner: int, number: int, operation: Operation) -> None:
        chance, weather = self._chance, self._weather
        there = chance.expovariate(1 / weather.latency)
        if chance.random() < weather.late:
            there += chance.uniform(0, 8 * TIMEOUT)
        back = chance.expovariate(1 / weather.latency)
        refused, lost = chance.random() < weather.refused, chance.random() < weather.lost
        if refused:
            self._at(there + back, lambda: self._told(owner, number, LOST))
            return
        if lost or there + back > TIMEOUT:
            self._at(there, lambda: apply(self.store.contents, operation) and None)
            self._at(TIMEOUT, lambda: self._told(owner, number, LOST))
            return

        def take_place() -> None:
            outcome = apply(self.store.contents, operation)
            self._at(back, lambda: self._told(owner, number, outcome))

        self._at(there, take_place)

    def _told(self, owner: int, number: int, outcome: StoreOutcome) -> None:
        if owner in self.dead:
            return
        each = self.owners[owner]
        issued = len(each.issued)
        each.now = self.now
        each.handle(number, outcome)
        self._carry_out(owner, issued)
        self._sleep(owner)

    def _sleep(self, owner: int) -> None:
        writer = self.owners[owner].writer
        wake = writer.wake_at() if writer is not None else None
        if wake is not None and wake > self.now:
            self._at(wake - self.now, lambda: self._wake(owner))

    def _wake(self, owner: int) -> None:
        if owner not in self.dead:
            issued = len(self.owners[owner].issued)
            self.owners[owner].wake(self.now)
            self._carry_out(owner, issued)
            self._sleep(owner)

    def _read(self) -> None:
        """Everything that is there: no row has changed since it was seen first."""
        view = self._now(look(NAMES)) if NAMES.manifest in self.store.contents else None
        if view is not None:
            self._see(view)

    def _see(self, view: LogView) -> None:
        start, end = view.starts[0], view.ends[0]
        at = start
        for location in self._now(ObjectIndex(NAMES, "spool").locate(view, 0, start, end)):
            assert location.first == at
            found = self._now(get(location.key, location.position))
            assert isinstance(found, ObjectFound)
            for batch in rows_at(location, found.data, CODEC):
                for number in batch.column(0).to_pylist():
                    assert self.rows.setdefault(at, number) == number
                    at += 1
        assert at == end
        self.reads += 1

    def _now(self, steps: Steps[Any]) -> Any:
        return run(steps, one_by_one(self.store), lambda attempts, why: None)

    def _at(self, delay: float, call: Callable[[], Any]) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._serial), call))


def main(first: int, runs: int) -> int:
    """Run that many seeds; how many failed, of which each has a line."""
    failed = 0
    sums: Counter[str] = Counter()
    for seed in range(first, first + runs):
        simulated = SimulatedSpool(seed)
        try:
            simulated.run()
        except AssertionError as error:
            failed += 1
            print(f"seed {seed}: {error}", flush=True)
        sums.update(simulated.counts())
    done = ", ".join(f"{number} {name}" for name, number in sums.items())
    print(f"{runs} runs from seed {first}, {failed} failed: {done}")
    return failed


if __name__ == "__main__":
    import sys

    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])) > 0)
