"""100 seeds and each that once failed; ``make test-all`` runs 500, ``make simulate`` 20,000."""

from __future__ import annotations

import pytest

from tests.simulation.app import App
from tests.simulation.campaign import permanent_seeds, run_seeds
from tests.simulation.ledger import Broken
from tests.simulation.scenario import OPERATIONS, scenario
from tests.simulation.world import World, run_seed
from tests.support.rules import rule

SEEDS, ALL_SEEDS = 100, 500
AT_ONCE = 50


@rule(
    "AQ-SEND-1", "AQ-SEND-2", "AQ-SEND-3", "AQ-SEND-5", "AQ-SEND-10", "AQ-SEND-12",
    "AQ-ACK-7", "AQ-ACK-10", "AQ-ACK-12", "AQ-ACK-15",
    "AQ-LIFE-12", "AQ-LIFE-15", "AQ-LIFE-18", "AQ-LIFE-20", "AQ-LIFE-22", "AQ-LIFE-24",
    "AQ-LOST-3", "AQ-LOST-5", "AQ-LOST-6", "AQ-ERR-3", "AQ-FLOW-4", "AQ-FLOW-7", "AQ-FLOW-11",
)  # fmt: skip
@pytest.mark.parametrize(
    "first",
    [
        *range(0, SEEDS, AT_ONCE),
        *(
            pytest.param(first, marks=pytest.mark.long)
            for first in range(SEEDS, ALL_SEEDS, AT_ONCE)
        ),
    ],
)
def test_every_promise_holds(first: int) -> None:
    totals = run_seeds(first, AT_ONCE)
    assert not totals.failures
    assert totals.messages > AT_ONCE
    assert totals.deliveries > AT_ONCE


@pytest.mark.parametrize(("seed", "what"), permanent_seeds())
def test_seeds_that_once_failed(seed: int, what: str) -> None:
    assert what, "say what the seed showed"
    run_seed(seed)


def test_the_same_seed_is_the_same_run() -> None:
    assert scenario(7) == scenario(7)
    assert run_seed(7) == run_seed(7)
    assert run_seed(7) != run_seed(8)


def test_every_operation_has_its_weight() -> None:
    assert all(len(scenario(seed).weights) == len(OPERATIONS) for seed in range(50))


@pytest.mark.parametrize("seed", [0, 1, 3])
def test_a_broken_promise_is_seen(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that delivers every batch twice does not pass."""
    read = App._batch

    def twice(app: App, *arguments: object) -> None:
        read(app, *arguments)  # type: ignore[arg-type]
        read(app, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(App, "_batch", twice)
    with pytest.raises(Broken, match="delivered twice"):
        World(scenario(seed)).run()
