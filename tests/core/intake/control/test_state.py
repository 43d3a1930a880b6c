from __future__ import annotations

import pytest

from aqueduct_core.flight.status import Rates
from aqueduct_core.intake.control.state import STEP, WINDOW, Meter


def test_nothing_is_no_rate() -> None:
    assert Meter(0.0).rates(10.0, 0, 0) == Rates(0.0, 0.0)


def test_a_steady_stream_has_its_rate_from_the_start_on() -> None:
    meter = Meter(100.0)
    for second in range(1, 300):
        meter.note(100.0 + second, 10 * second, 1000 * second)
        rates = meter.rates(100.0 + second, 10 * second, 1000 * second)
        assert rates.rows == pytest.approx(10.0, rel=0.05)
        assert rates.bytes == pytest.approx(1000.0, rel=0.05)


def test_what_is_older_than_the_window_does_not_count() -> None:
    meter = Meter(0.0)
    meter.note(5.0, 1000, 50_000)
    assert meter.rates(10.0, 1000, 50_000).rows == 100.0
    assert meter.rates(5.0 + WINDOW, 1000, 50_000) == Rates(0.0, 0.0)


def test_the_first_moment_is_no_peak() -> None:
    assert Meter(0.0).rates(0.001, 5, 50).rows == 5 / STEP


def test_samples_are_bounded() -> None:
    meter = Meter(0.0)
    for turn in range(100_000):
        meter.note(turn / 100, turn, turn)
    assert len(meter._samples) <= WINDOW / STEP + 2
