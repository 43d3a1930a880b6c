"""Operations that are repeated until they have an answer, and what a repeated write came to.

A write whose answer was lost is repeated with the very same bytes. Where the repetition finds
something there, that is read: whether it is our own tells whether the first attempt took place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.objects.store import (
    CreateObject,
    GetObject,
    ObjectExists,
    ObjectFound,
    ObjectStored,
    Operation,
    ReplaceObject,
    Steps,
    StoreAnswer,
    StoreDenied,
    StoreOutcome,
    StoreUnavailable,
)

_Result = TypeVar("_Result")


def answers(operations: Sequence[Operation]) -> Steps[list[StoreAnswer]]:
    """The answer to each, asked until there is one.

    Raises:
        SpoolFailed: FORBIDDEN.
    """
    found: dict[int, StoreAnswer] = {}
    while waiting := [i for i in range(len(operations)) if i not in found]:
        outcomes = yield tuple(operations[i] for i in waiting)
        for i, outcome in zip(waiting, outcomes, strict=True):
            if isinstance(outcome, StoreDenied):
                raise denied(operations[i], outcome)
            if not isinstance(outcome, StoreUnavailable):
                found[i] = outcome
    return [found[i] for i in range(len(operations))]


def get(key: str, start: int = 0, stop: int | None = None) -> Steps[ObjectFound | None]:
    """An object, or bytes of it; None: there is none.

    Raises:
        SpoolFailed: FORBIDDEN.
    """
    (answer,) = yield from answers([GetObject(key, start, stop)])
    return answer if isinstance(answer, ObjectFound) else None


def create(key: str, data: bytes) -> Steps[ObjectFound | None]:
    """Create an object, or see the one that is there: other bytes than these. None: it is created.

    Raises:
        SpoolFailed: FORBIDDEN.
    """
    while True:
        (answer,) = yield from answers([CreateObject(key, data)])
        if not isinstance(answer, ObjectExists):
            return None
        there = yield from get(key)
        if there is not None:
            return None if there.data == data else there
        # it was deleted since; or a store said so of a write that is still under way


def replace(key: str, data: bytes, tag: str) -> Steps[str | None]:
    """Replace the object that has this tag: the tag of the new one; None when there was another,
    so that nothing was changed. ``data`` is unlike all that was ever there.

    Raises:
        SpoolFailed: FORBIDDEN.
    """
    (answer,) = yield from answers([ReplaceObject(key, data, tag)])
    if isinstance(answer, ObjectStored):
        return answer.tag
    there = yield from get(key)
    return there.tag if there is not None and there.data == data else None


def run(
    steps: Steps[_Result],
    carry_out: Callable[[tuple[Operation, ...]], tuple[StoreOutcome, ...]],
    wait: Callable[[int, str], None],
) -> _Result:
    """Carry steps out to their end.

    Args:
        wait: called with the number of attempts in a row of which one had no answer, and why,
            before the next one; what it raises ends the steps.
    """
    attempts = 0
    try:
        operations = next(steps)
        while True:
            outcomes = carry_out(operations)
            silent = [each for each in outcomes if isinstance(each, StoreUnavailable)]
            attempts = attempts + 1 if silent else 0
            if silent:
                wait(attempts, silent[0].reason)
            operations = steps.send(outcomes)
    except StopIteration as end:
        result: _Result = end.value
        return result
    finally:
        steps.close()


def denied(operation: Operation, outcome: StoreDenied) -> SpoolFailed:
    what = getattr(operation, "key", None) or getattr(operation, "prefix", "")
    return SpoolFailed(
        "FORBIDDEN",
        f"the object store refuses {type(operation).__name__} of {what}: {outcome.reason}",
        "Give the process credentials that may get, put, delete and list below that prefix",
    )
