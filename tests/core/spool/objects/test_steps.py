"""Operations are repeated until they have an answer; a write that took place is known again."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.objects.steps import answers, create, get, replace, run
from aqueduct_core.spool.objects.store import (
    CreateObject,
    GetObject,
    ObjectFound,
    ObjectMissing,
    ObjectStored,
    Operation,
    ReplaceObject,
    Steps,
    StoreDenied,
)
from tests.support.objects.memory_store import MemoryStore, one_by_one

STORED = (True, True)
NO_ANSWER = (True, False)
REFUSED = (False, False)


def carried_out(
    store: MemoryStore, steps: Steps[Any], *faults: tuple[bool, bool]
) -> tuple[Any, list[int]]:
    """What came of it, when the first operations fail so; and the attempts that were waited for."""
    left, waits = list(faults), []
    store.fault = lambda operation: left.pop(0) if left else STORED
    return run(steps, one_by_one(store), lambda attempts, why: waits.append(attempts)), waits


def test_only_what_had_no_answer_is_asked_again() -> None:
    store = MemoryStore({"b": (b"2", "t")})
    steps = answers([GetObject("a"), GetObject("b")])
    found, waits = carried_out(store, steps, REFUSED, STORED, REFUSED)
    assert found == [ObjectMissing(), ObjectFound(b"2", "t")]
    assert waits == [1, 2]
    assert store.requests["GetObject"] == 4


def test_a_create_without_an_answer_is_known_again() -> None:
    store = MemoryStore()
    assert carried_out(store, create("k", b"ours"), NO_ANSWER) == (None, [1])
    assert carried_out(store, create("k", b"ours"), REFUSED, NO_ANSWER) == (None, [1, 2])
    found, _ = carried_out(store, create("k", b"another's"))
    assert found.data == b"ours"


def test_a_create_of_what_is_deleted_meanwhile_is_tried_again() -> None:
    store = MemoryStore({"k": (b"old", "t")})

    def deleted_before_it_is_read(operation: Operation) -> tuple[bool, bool]:
        if isinstance(operation, GetObject):
            store.contents.clear()
        return STORED

    store.fault = deleted_before_it_is_read
    assert run(create("k", b"new"), one_by_one(store), lambda *_: None) is None
    assert store.contents["k"][0] == b"new"


def test_a_replacement_without_an_answer_is_known_again() -> None:
    store = MemoryStore()
    made = store.carry_out(CreateObject("k", b"1"))
    assert isinstance(made, ObjectStored)
    tag, _ = carried_out(store, replace("k", b"2", made.tag), NO_ANSWER)
    assert tag == store.contents["k"][1]
    assert carried_out(store, replace("k", b"3", made.tag))[0] is None
    assert store.contents["k"][0] == b"2"


def test_who_is_denied_gives_up() -> None:
    def denied(operations: tuple[Operation, ...]) -> tuple[StoreDenied, ...]:
        return tuple(StoreDenied("PermissionDenied") for _ in operations)

    with pytest.raises(SpoolFailed, match=r"FORBIDDEN.*GetObject of k: PermissionDenied"):
        run(get("k"), denied, lambda *_: None)


def test_data_is_in_no_text_of_an_operation() -> None:
    for each in (CreateObject("k", b"secret"), ReplaceObject("k", b"secret", "t")):
        assert "secret" not in repr(each)
