"""Owners and readers on a bad store; `make objects` runs 10,000 seeds."""

from __future__ import annotations

import pytest

from aqueduct_core.spool.objects.compaction import SealedRange
from tests.support.objects.simulated_spool import SimulatedSpool


@pytest.mark.parametrize("shard", range(4))
def test_nothing_that_was_acked_is_lost_and_no_row_changes(shard: int) -> None:
    takeovers = segments = fenced = 0
    for seed in range(shard, 400, 4):
        simulated = SimulatedSpool(seed)
        simulated.run()
        counts = simulated.counts()
        takeovers += counts["takeovers"]
        segments += counts["segments"]
        fenced += counts["owners fenced"]
    assert takeovers > 150
    assert segments > 50
    assert fenced > 30


def test_a_loss_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SealedRange, "fences", property(lambda self: []))
    with pytest.raises(AssertionError, match="does not find"):
        SimulatedSpool(19).run()
