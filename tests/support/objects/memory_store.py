"""A store in memory, and the ways in which a store fails."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from aqueduct_core.spool.objects.store import (
    CreateObject,
    DeleteObject,
    GetObject,
    ListObjects,
    ObjectChanged,
    ObjectDeleted,
    ObjectExists,
    ObjectFound,
    ObjectMissing,
    ObjectsListed,
    ObjectStore,
    ObjectStored,
    Operation,
    StoreOutcome,
    StoreUnavailable,
)

Contents = dict[str, tuple[bytes, str]]


def apply(contents: Contents, operation: Operation) -> StoreOutcome:
    """Carry an operation out; ``contents`` is changed in place. Tags follow from the bytes, as
    those of S3 do: equal bytes have equal tags."""
    if isinstance(operation, ListObjects):
        keys = (key for key in contents if key.startswith(operation.prefix))
        return ObjectsListed(tuple(sorted(key for key in keys if key > operation.after)[:1000]))
    there = contents.get(operation.key)
    if isinstance(operation, GetObject):
        if there is None:
            return ObjectMissing()
        return ObjectFound(there[0][operation.start : operation.stop], there[1])
    if isinstance(operation, DeleteObject):
        contents.pop(operation.key, None)
        return ObjectDeleted()
    tag = f"{hash(operation.data):x}"
    if isinstance(operation, CreateObject) and there is not None:
        return ObjectExists()
    if not isinstance(operation, CreateObject) and (there is None or there[1] != operation.tag):
        return ObjectChanged()
    contents[operation.key] = operation.data, tag
    return ObjectStored(tag)


@dataclass(slots=True)
class MemoryStore:
    """Fails where ``fault`` says so: it gets each operation and says whether it takes place, and
    whether it is answered."""

    contents: Contents = field(default_factory=dict)
    fault: Callable[[Operation], tuple[bool, bool]] = lambda operation: (True, True)
    requests: Counter[str] = field(default_factory=Counter)

    def carry_out(self, operation: Operation) -> StoreOutcome:
        self.requests[type(operation).__name__] += 1
        takes_place, answered = self.fault(operation)
        outcome: StoreOutcome = StoreUnavailable("lost on its way")
        if takes_place:
            outcome = apply(self.contents, operation)
        return outcome if answered else StoreUnavailable("503 Slow Down")


@dataclass(slots=True)
class DrawnFaults:
    """Some operations do not take place, of some that do the answer is lost; at chances of their
    own."""

    chance: random.Random
    refused: float = 0.1
    unanswered: float = 0.1

    def __call__(self, operation: Operation) -> tuple[bool, bool]:
        takes_place = self.chance.random() >= self.refused
        return takes_place, takes_place and self.chance.random() >= self.unanswered


def one_by_one(
    store: ObjectStore,
) -> Callable[[tuple[Operation, ...]], tuple[StoreOutcome, ...]]:
    """Carries operations out one after the other (`steps.run`)."""
    return lambda operations: tuple(store.carry_out(each) for each in operations)
