"""``aqueduct spool settings DIR``: who can bring messages into a spool, and settling it anew."""

from __future__ import annotations

import argparse
import json

from aqueduct_core.cli.spool.places import places
from aqueduct_core.errors import SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.intake.settings import recorded


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.forget:
        for place in found:
            place.act(_end_unused, lambda: None)
        if options.directory not in [place.directory for place in found]:
            recorded.forget(options.directory)  # what all intakes of a query share
    for place in found:
        if options.forget:
            forgotten = recorded.forget(place.directory)
            print(f"{place.directory}: {'forgotten' if forgotten else 'none were kept'}")
            continue
        known = recorded.recorded_in(place.directory)
        if options.json:
            print(json.dumps({"directory": str(place.directory), "settings": known}))
        elif known is None:
            print(f"{place.directory}: none are kept; the next intake settles them")
        else:
            told = "  ".join(f"{option}={value}" for option, value in sorted(known.items()))
            print(f"{place.directory}: {told or 'dials endpoints that it verifies'}")
    return 0


def _end_unused(intake: IntakeClient) -> None:
    """One that waits for its query to come back would go on as it was told before. One that runs on
    its own is ended by whoever started it."""
    status = intake.status()
    if status.lease is None:
        return
    if status.held:
        raise SpoolFailed(
            "CURSOR_IN_USE",
            f"cursor {', '.join(status.held)} is held by a query, and its intake goes on as it is",
            "Stop all queries of the spool, then try again",
        )
    intake.drain()
