"""How close batches follow each other under load: pure, times are monotonic seconds of the caller.

A micro-batch costs about a quarter of a second of processor time whatever is in it. Back to back
they take a core, and where cores are few they take it from the intake and from producers, so that
less comes in than could. So a stream that brings much is read in batches that are `APART` seconds
apart, from plan to plan, and grow with what waits. Where a batch takes longer than that, or little
comes in, none is held back. With a trigger of a second or more none is for long:
what one plan is late by the next one is less, until they are at the times of the trigger again.
"""

from __future__ import annotations

from dataclasses import dataclass

APART = 0.9
"""Seconds between two plans under load: a batch then takes a quarter of the time of a core. Less
than a second, the usual trigger: as much as that, and each plan of such a query would wait for what
the one before was late by, and be later by its own waking up, until a trigger is missed."""

ROWS, BYTES = 20_000.0, 8_000_000.0
"""Messages, or stored bytes, a second: from either of them on it is load. At a tenth of it batches
back to back leave a producer all that it wants, on two cores too."""


@dataclass(frozen=True, slots=True)
class BatchSpacing:
    """``planned`` is when the last batch with rows was planned; None: there was none. ``until``:
    rows are held back until then; None: nothing waited yet that came in since."""

    planned: float | None = None
    until: float | None = None

    def batch(self, now: float) -> BatchSpacing:
        """A batch with rows is planned now, with all that was there."""
        return BatchSpacing(planned=now)

    def seeing(self, rows: int, size: float, now: float) -> BatchSpacing:
        """``rows`` wait, of ``size`` stored bytes, all new since the last batch was planned.

        What it is decided by is what came in up to the first look after a batch; more looks change
        nothing, so that waiting does not prolong itself.
        """
        if self.planned is None or self.until is not None or not rows:
            return self
        taken = now - self.planned
        loaded = rows >= ROWS * taken or size >= BYTES * taken
        return BatchSpacing(self.planned, self.planned + APART if loaded else now)

    def remaining(self, now: float) -> float:
        """Seconds for which the rows that wait are to be held back; 0.0: take them."""
        return 0.0 if self.until is None else max(0.0, self.until - now)
