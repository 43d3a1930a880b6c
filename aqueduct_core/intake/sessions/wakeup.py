"""When a session is to be called again, whatever its protocol waits for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

CallLater: TypeAlias = Callable[[float, Callable[[], None]], object]
"""``later(seconds, call)``, as of an event loop."""


class Wakeup:
    """Calls ``wake`` no later than it was asked to last; once, and maybe too soon.

    Args:
        clock: monotonic seconds.
    """

    def __init__(
        self, later: CallLater, clock: Callable[[], float], wake: Callable[[], None]
    ) -> None:
        self._later = later
        self._clock = clock
        self._wake = wake
        self._at: float | None = None

    def by(self, at: float | None) -> None:
        """``wake`` is wanted at ``at``; None: not for this."""
        if at is not None and (self._at is None or at < self._at):
            self._at = at
            self._later(max(0.0, at - self._clock()), self._fire)

    def _fire(self) -> None:
        self._at = None
        self._wake()
