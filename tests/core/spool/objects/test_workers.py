"""Steps are carried out by threads; who waits gives up after a while."""

from __future__ import annotations

import threading

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.objects.steps import answers, get
from aqueduct_core.spool.objects.store import GetObject, ObjectMissing, Steps
from aqueduct_core.spool.objects.workers import Maintenance, StepRunner
from tests.support.objects.memory_store import MemoryStore

SOON = 10.0


def runner(store: MemoryStore | None = None, deadline: float = SOON) -> StepRunner:
    return StepRunner(store or MemoryStore(), deadline, "s3://bucket/spool")


def test_operations_of_one_step_have_their_outcomes_in_order() -> None:
    each = runner(MemoryStore({"b": (b"2", "t")}))
    found = each.run(answers([GetObject("a"), GetObject("b"), GetObject("c")]))
    assert [type(one) is ObjectMissing for one in found] == [True, False, True]
    each.close()


def test_a_store_that_does_not_answer_is_given_up() -> None:
    store = MemoryStore(fault=lambda operation: (False, False))
    each = runner(store, deadline=0.1)
    with pytest.raises(SpoolFailed, match=r"IO.*s3://bucket/spool does not answer: 503"):
        each.run(get("k"))
    assert store.requests["GetObject"] > 1
    each.close()


def test_who_waits_when_it_is_closed_gives_up() -> None:
    each = runner(MemoryStore(fault=lambda operation: (False, False)), deadline=3600)
    each.close()
    with pytest.raises(SpoolFailed, match="IO"):
        each.run(get("k"))


def steps(done: list[str], name: str, error: Exception | None = None) -> Steps[None]:
    yield from get(name)
    done.append(name)
    if error is not None:
        raise error


def test_jobs_are_done_in_order_the_latest_of_a_name() -> None:
    done: list[str] = []
    each = runner()
    maintenance = Maintenance(each, lambda: None)
    first = threading.Event()

    def blocking() -> Steps[None]:
        assert first.wait(SOON)
        return steps(done, "first")

    maintenance.submit("first", blocking)
    maintenance.submit("trim", lambda: steps(done, "old"))
    maintenance.submit("seal", lambda: steps(done, "seal"))
    maintenance.submit("trim", lambda: steps(done, "new"))
    first.set()
    assert maintenance.wait(SOON)
    assert set(done[1:]) == {"seal", "new"}
    assert done[0] == "first"
    maintenance.close()
    each.close()


def test_only_another_owner_is_final() -> None:
    done: list[str] = []
    notified = threading.Event()
    each = runner()
    maintenance = Maintenance(each, notified.set)
    for error in (SpoolFailed("IO", "what", "remedy"), RuntimeError("what")):
        maintenance.submit("job", lambda error=error: steps(done, "a", error))  # type: ignore[misc]
        assert maintenance.wait(SOON)
        assert maintenance.failure is None
    locked = SpoolFailed("LOCKED", "what", "remedy")
    maintenance.submit("job", lambda: steps(done, "b", locked))
    assert notified.wait(SOON)
    assert maintenance.wait(SOON)
    assert maintenance.failure is locked
    maintenance.submit("job", lambda: steps(done, "c"))
    assert maintenance.wait(SOON)
    assert done[-1] == "b"
    maintenance.close()
    each.close()
