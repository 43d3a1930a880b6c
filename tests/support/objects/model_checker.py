"""All interleavings of some owners of one spool: what the store does, and in which order.

An operation is on its way until it takes place; its answer comes at once with that. The owner may
give up waiting before (a time-out): then it still may take place, at any time later. So may what an
owner had on its way when it crashed. States are kept once; the owners' own ones follow from the
outcomes that they were told, so a history stands for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import count
from typing import NamedTuple

from aqueduct_core.spool.objects.store import (
    GetObject,
    ListObjects,
    Operation,
    StoreOutcome,
)
from tests.support.objects.memory_store import Contents, apply
from tests.support.objects.model_owner import LOST, ModelOwner, OwnerPlan

History = tuple[tuple[int, StoreOutcome], ...]


class OnItsWay(NamedTuple):
    """An operation of an owner; ``awaited``: the owner waits for its outcome."""

    owner: int
    number: int
    awaited: bool


class ModelState(NamedTuple):
    """``histories`` and ``contents`` are numbers of what was seen before."""

    contents: int
    histories: tuple[int, ...]
    network: frozenset[OnItsWay]
    timeouts: int
    crashes: int
    dead: frozenset[int]


@dataclass(frozen=True, slots=True)
class OwnerSummary:
    """What is seen of an owner from outside."""

    issued: tuple[Operation, ...]
    epoch: int
    acked: frozenset[tuple[str, int]]
    found: frozenset[tuple[str, int]] | None
    error: str


class Broken(AssertionError):
    """The property does not hold; says where, with the way to it."""


@dataclass
class ModelChecker:
    """
    timeouts, crashes: how many there may be in a run.
    most: states after which it gives up; 0: none.
    """

    plans: tuple[OwnerPlan, ...]
    timeouts: int = 1
    crashes: int = 0
    most: int = 0
    states: int = 0
    complete: bool = False
    takeovers: int = 0
    _histories: list[History] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)
    _contents: list[Contents] = field(default_factory=list)
    _serial: Iterator[int] = field(default_factory=count)

    def run(self) -> None:
        """
        Raises:
            Broken: with the operations that lead there.
        """
        owner = cache(self._summary)
        start = ModelState(
            self._keep_contents({}),
            tuple(self._keep_history(()) for _ in self.plans),
            frozenset(OnItsWay(i, 0, True) for i in range(len(self.plans))),
            self.timeouts,
            self.crashes,
            frozenset(),
        )
        before: dict[ModelState, tuple[ModelState, str] | None] = {start: None}
        stack = [start]
        while stack:
            state = stack.pop()
            self.states += 1
            if self.most and self.states > self.most:
                return
            try:
                self._check([owner(i, each) for i, each in enumerate(state.histories)])
            except Broken as error:
                raise Broken(f"{error}\n{self._way(state, before)}") from None
            for what, after in self._after(state, owner):
                if after not in before:
                    before[after] = state, what
                    stack.append(after)
        self.complete = True

    def _after(self, state: ModelState, owner: object) -> Iterator[tuple[str, ModelState]]:
        assert callable(owner)
        for each in sorted(state.network):
            issued = owner(each.owner, state.histories[each.owner]).issued
            operation = issued[each.number]
            contents = dict(self._contents[state.contents])
            outcome = apply(contents, operation)
            name = f"{self.plans[each.owner].life}: {_shown(operation)}"
            rest = state._replace(
                contents=self._keep_contents(contents), network=state.network - {each}
            )
            if not each.awaited:
                yield f"{name} takes place late", rest
                continue
            yield f"{name} → {type(outcome).__name__}", self._told(rest, each, outcome, owner)
            if state.timeouts and _changes(operation):
                late = each._replace(awaited=False)
                rest = state._replace(
                    network=state.network - {each} | {late}, timeouts=state.timeouts - 1
                )
                yield f"{name} has no answer", self._told(rest, each, LOST, owner)
        for i in range(len(self.plans)) if state.crashes else ():
            if i not in state.dead:
                network = frozenset(
                    each._replace(awaited=False) if each.owner == i else each
                    for each in state.network
                    if each.owner != i or _changes(owner(i, state.histories[i]).issued[each.number])
                )
                yield (
                    f"{self.plans[i].life} crashes",
                    state._replace(
                        network=network, crashes=state.crashes - 1, dead=state.dead | {i}
                    ),
                )

    def _told(
        self, state: ModelState, each: OnItsWay, outcome: StoreOutcome, owner: object
    ) -> ModelState:
        assert callable(owner)
        i = each.owner
        before = self._histories[state.histories[i]]
        known = len(owner(i, state.histories[i]).issued)
        history = self._keep_history((*before, (each.number, outcome)))
        new = range(known, len(owner(i, history).issued))
        histories = (*state.histories[:i], history, *state.histories[i + 1 :])
        network = state.network | {OnItsWay(i, number, True) for number in new}
        return state._replace(histories=histories, network=network)

    def _summary(self, i: int, history: int) -> OwnerSummary:
        plan = self.plans[i]
        owner = ModelOwner(plan)
        for number, outcome in self._histories[history]:
            owner.handle(number, outcome)
        self.takeovers += owner.taken is not None
        return OwnerSummary(
            tuple(owner.issued),
            owner.epoch,
            frozenset((plan.life, each) for each in owner.acked),
            None if owner.taken is None else owner.found,
            "" if owner.error is None else owner.error.subclass,
        )

    def _check(self, owners: list[OwnerSummary]) -> None:
        for each in owners:
            if each.error not in ("", "LOCKED"):
                raise Broken(f"an owner fails: {each.error}")
            for later in owners:
                if later.found is not None and later.epoch > each.epoch:
                    lost = each.acked - later.found
                    if lost:
                        raise Broken(f"acked, and not found by epoch {later.epoch}: {set(lost)}")

    def _keep_history(self, history: History) -> int:
        return self._keep(history, self._histories, history)

    def _keep_contents(self, contents: Contents) -> int:
        return self._keep(frozenset(contents.items()), self._contents, contents)

    def _keep(self, key: object, kept: list, value: object) -> int:  # type: ignore[type-arg]
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(kept)
            kept.append(value)
        return number

    def _way(
        self, state: ModelState, before: dict[ModelState, tuple[ModelState, str] | None]
    ) -> str:
        steps = []
        while (way := before[state]) is not None:
            state, what = way
            steps.append(what)
        return "\n".join(reversed(steps))


def _changes(operation: Operation) -> bool:
    """Whether it matters that an operation takes place when nobody waits for it."""
    return not isinstance(operation, GetObject | ListObjects)


def _shown(operation: Operation) -> str:
    verb = type(operation).__name__.removesuffix("Object").lower()
    return f"{verb} {getattr(operation, 'key', '')}"
