"""How an intake stands, beside its spool, for its status; and how much it has stored a second.

Pure: whoever knows puts the numbers in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from aqueduct_core.flight.stalls import Stall
from aqueduct_core.flight.status import Rates
from aqueduct_core.flight.subscription_status import SubscriptionStatus

WINDOW = 60.0
STEP = 1.0
"""Seconds between two samples: at most `WINDOW` / `STEP` of them are kept."""


@dataclass(frozen=True, slots=True)
class IntakeState:
    """What a status shows of the intake beside its spool."""

    listen: str
    flight: str
    connections: int = 0
    channels: int = 0
    draining: bool = False
    held_bytes: int = 0
    rates: Rates = field(default_factory=Rates)
    counters: Mapping[str, int] = field(default_factory=dict)
    subscriptions: SubscriptionStatus | None = None
    complete: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    in_force: Mapping[str, str] = field(default_factory=dict)
    opened: tuple[int, ...] = ()
    warnings: tuple[str, ...] = ()
    stalls: tuple[Stall, ...] = ()
    protocol: str = "aqueduct"
    name: str = ""
    http: str = ""
    memory_limit: int = 0


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
