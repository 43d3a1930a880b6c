"""Rates that fade, and durations by bounds."""

from __future__ import annotations

import pytest

from aqueduct_core.intake.observing.measures import BOUNDS, RATE_SECONDS, DecayingRate, Durations


def test_a_steady_stream_has_its_rate_and_silence_fades() -> None:
    rate = DecayingRate(0.0)
    for second in range(100):
        rate.add(50, float(second))
    assert rate.at(99.0) == pytest.approx(50, rel=0.1)
    assert rate.at(99.0 + RATE_SECONDS) == pytest.approx(rate.at(99.0) / 2.718, rel=0.01)
    assert rate.at(10_000.0) < 1e-9


def test_a_clock_that_stands_still_or_goes_back_makes_nothing_grow() -> None:
    rate = DecayingRate(5.0)
    rate.add(10, 5.0)
    rate.add(10, 5.0)
    assert rate.at(4.0) == rate.at(5.0) == pytest.approx(2.0)


def test_durations_are_counted_up_to_their_bound() -> None:
    durations = Durations()
    for seconds in (0.0, 0.001, 0.0011, 0.3, 31.0, -4.0):
        durations.add(seconds)
    found = durations.status()
    assert found.bounds == BOUNDS
    assert found.count == 6
    assert found.counts[0] == 3
    assert found.counts[1] == 1
    assert found.counts[BOUNDS.index(0.5)] == 1
    assert found.counts[-1] == 1
    assert found.total == pytest.approx(31.3021)
