"""How long a launched intake may go on without a sign of its planner."""

from __future__ import annotations


class Lease:
    """Runs out ``seconds`` after the last renewal; without ``seconds`` never.

    Times are monotonic seconds. `check` is called about every `interval`; when a call comes much
    later than that, the whole process was stopped, not the planner, and the lease starts anew.
    """

    def __init__(self, seconds: float | None, now: float) -> None:
        self.seconds = seconds
        self._until = now + (seconds or 0.0)
        self._checked = now

    @property
    def interval(self) -> float:
        """Seconds between two checks."""
        return min(1.0, (self.seconds or 4.0) / 4)

    def renew(self, now: float, seconds: float | None = None) -> None:
        """Go on for ``seconds`` (default: the lease's own) from now."""
        if self.seconds is not None:
            self._until = max(self._until, now + (self.seconds if seconds is None else seconds))

    def check(self, now: float) -> bool:
        """Whether the lease has run out."""
        late = now - self._checked > self.interval + max(1.0, self.interval)
        self._checked = now
        if self.seconds is None:
            return False
        if late:
            self.renew(now)
        return now >= self._until
