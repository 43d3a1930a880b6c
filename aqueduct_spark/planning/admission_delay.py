"""When few messages are worth a batch: ``minOffsetsPerTrigger`` with ``maxTriggerDelay``.

Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionDelay:
    """Waits for ``least`` messages, but no longer than ``longest`` seconds since the first of them
    was seen.

    ``since`` is when messages were first seen waiting; None: none are, or a batch took them.
    """

    least: int | None
    longest: float
    since: float | None = None

    def seeing(self, rows: int, now: float) -> AdmissionDelay:
        """With ``rows`` waiting at ``now``."""
        if not rows:
            return AdmissionDelay(self.least, self.longest)
        return AdmissionDelay(self.least, self.longest, now if self.since is None else self.since)

    def remaining(self, rows: int, now: float) -> float:
        """Seconds for which ``rows`` waiting messages are to be held back; 0.0: take them."""
        if self.least is None or rows >= self.least or self.since is None:
            return 0.0
        return max(0.0, self.since + self.longest - now)
