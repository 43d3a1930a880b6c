"""Turns of an engine that has more at once than it takes in by one of them."""

from __future__ import annotations

from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.ingress import SOON


def proceed(engine: AqueductEngine, now: float) -> None:
    """Have it take in all that is here, in as many turns as it needs."""
    while (wake := engine.wake_at) is not None and now < wake <= now + 2 * SOON:
        now = wake
        engine.tick(now)
        engine._ingress.turn()
