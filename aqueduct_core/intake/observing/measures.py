"""Rates and distributions that cost an addition where something happens."""

from __future__ import annotations

from bisect import bisect_left
from math import exp

from aqueduct_core.flight.activity import Distribution

RATE_SECONDS = 10.0
"""What happened so long ago counts a third in a rate."""

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds: from a fast disk to one that stands still."""


class DecayingRate:
    """How many a second, of late: exponentially less of what is longer ago. ``now`` is monotonic
    seconds and need not grow by the same steps."""

    __slots__ = ("_at", "_value")

    def __init__(self, now: float) -> None:
        self._value = 0.0
        self._at = now

    def add(self, count: float, now: float) -> None:
        self._value = self.at(now) + count / RATE_SECONDS
        self._at = now

    def at(self, now: float) -> float:
        return self._value * exp(min(0.0, (self._at - now) / RATE_SECONDS))


class Durations:
    """Counts durations by `BOUNDS`."""

    __slots__ = ("_counts", "_total")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self._total = 0.0

    def add(self, seconds: float) -> None:
        """One of them; a clock that was set back counts as none."""
        seconds = max(0.0, seconds)
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self._total += seconds

    def status(self) -> Distribution:
        return Distribution(BOUNDS, tuple(self._counts), self._total)
