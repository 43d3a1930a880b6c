"""How long the waits between attempts are."""

from __future__ import annotations

import pytest

from aqueduct_core.primitives.backoff import Backoff


def test_waits_double_up_to_the_limit_and_start_anew() -> None:
    backoff = Backoff(0.1, 1.0, chance=lambda: 1.0)
    assert [round(backoff.next(), 3) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert backoff.next() == pytest.approx(0.1)


def test_jitter_takes_away_half_at_most() -> None:
    assert Backoff(1.0, 8.0, chance=lambda: 0.0).next() == 0.5
