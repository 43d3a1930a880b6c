"""How much a second, over the last minute."""

from __future__ import annotations

from collections import deque

from aqueduct_core.flight.status import Rates

WINDOW = 60.0
STEP = 1.0
"""Seconds between two samples: at most `WINDOW` / `STEP` of them are kept."""


class Meter:
    """Turns totals into rates over a sliding minute, or over the time since the start.

    ``now`` is monotonic seconds; totals never fall.
    """

    def __init__(self, now: float) -> None:
        self._samples: deque[tuple[float, int, int]] = deque([(now, 0, 0)])

    def note(self, now: float, rows: int, size: int) -> None:
        """So many there were by now. To be called whenever there are more, and before `rates`."""
        samples = self._samples
        if now - samples[-1][0] >= STEP:
            samples.append((now, rows, size))
        while len(samples) > 1 and samples[1][0] <= now - WINDOW:
            samples.popleft()

    def rates(self, now: float, rows: int, size: int) -> Rates:
        self.note(now, rows, size)
        begun, rows_then, size_then = self._samples[0]
        seconds = max(now - begun, STEP)
        return Rates((rows - rows_then) / seconds, (size - size_then) / seconds)
