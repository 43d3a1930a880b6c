"""How long to wait before the next attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Backoff:
    """Exponential, with jitter, so that many clients of one server do not come back at once.

    The n-th wait lies between half and all of ``first * 2**n``, at most ``limit`` seconds;
    ``chance`` gives a number from 0 to 1.
    """

    first: float
    limit: float
    chance: Callable[[], float] = field(repr=False)
    attempts: int = 0

    def next(self) -> float:
        """Seconds to wait now."""
        ceiling = min(self.limit, self.first * 2.0 ** min(self.attempts, 32))
        self.attempts += 1
        return ceiling * (0.5 + self.chance() / 2)

    def reset(self) -> None:
        """An attempt was good."""
        self.attempts = 0
