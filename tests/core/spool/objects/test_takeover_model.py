"""All interleavings of a few owners: what one of them acked, each later one finds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aqueduct_core.spool.objects import takeover
from aqueduct_core.spool.objects.compaction import SealedRange
from aqueduct_core.spool.objects.store import Steps
from tests.support.objects.model_checker import Broken, ModelChecker
from tests.support.objects.model_owner import OwnerPlan

ONE = OwnerPlan("a", 1, window=1)
SEALS = OwnerPlan("b", 1, window=1, seal=2)


def complete(plans: tuple[OwnerPlan, ...], timeouts: int, crashes: int = 0) -> ModelChecker:
    checker = ModelChecker(plans, timeouts, crashes)
    checker.run()
    assert checker.complete
    return checker


@pytest.mark.parametrize(
    ("plans", "timeouts", "crashes"),
    [
        ((OwnerPlan("a", 3),), 2, 1),
        ((ONE, OwnerPlan("b", 1, window=1)), 1, 0),
        ((OwnerPlan("a", 2), OwnerPlan("b", 2)), 0, 1),
        ((OwnerPlan("a", 1, window=1), SEALS), 0, 1),
    ],
    ids=str,
)
def test_what_was_acked_is_found_by_every_successor(
    plans: tuple[OwnerPlan, ...], timeouts: int, crashes: int
) -> None:
    assert complete(plans, timeouts, crashes).states > 300


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_also_when_an_answer_is_lost_while_it_is_sealed() -> None:
    assert complete((ONE, SEALS), 1).states > 200_000


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("plans", "timeouts", "crashes"),
    [
        ((OwnerPlan("a", 2), OwnerPlan("b", 2, seal=3)), 0, 1),
        ((OwnerPlan("a", 2), OwnerPlan("b", 2)), 1, 0),
        ((OwnerPlan("a", 2, read_ahead=2), OwnerPlan("b", 1)), 0, 0),
        ((ONE, OwnerPlan("b", 1, window=1), OwnerPlan("c", 1, window=1, seal=3)), 1, 1),
    ],
    ids=str,
)
def test_larger_models_as_far_as_memory_goes(
    plans: tuple[OwnerPlan, ...], timeouts: int, crashes: int
) -> None:
    checker = ModelChecker(plans, timeouts, crashes, most=700_000)
    checker.run()
    assert checker.complete or checker.states > checker.most


def test_a_fence_without_the_window_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the owner before has in flight would become part of the log."""
    monkeypatch.setattr(takeover, "resume_after", lambda sequence, window: sequence + 1)
    plans = (OwnerPlan("a", 2), OwnerPlan("b", 1), OwnerPlan("c", 0))
    with pytest.raises(Broken, match="an owner fails: CORRUPT"):
        complete(plans, 0)


def test_fences_that_are_deleted_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The create that was fenced takes place when the name is free again."""
    monkeypatch.setattr(SealedRange, "fences", property(lambda self: []))
    with pytest.raises(Broken, match=r"acked, and not found by epoch 2: \{\('a', 2\)\}"):
        complete((ONE, SEALS), 0)


def test_an_owner_that_does_not_look_back_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes what a later owner deleted for the end, and acks what nobody finds."""

    def unchecked(names: object, life: str) -> Steps[None]:
        nothing: Iterator[None] = iter(())
        yield from nothing  # type: ignore[misc]

    monkeypatch.setattr(takeover, "check_owned", unchecked)
    plans = (ONE, OwnerPlan("b", 1, window=1), OwnerPlan("c", 1, window=1, seal=3))
    with pytest.raises(Broken, match="acked, and not found"):
        complete(plans, 0)
