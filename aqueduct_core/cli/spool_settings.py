"""``aqueduct spool settings DIR``: who can bring messages into a spool, and settling it anew."""

from __future__ import annotations

import argparse
import json

from aqueduct_core.cli.spool_places import places
from aqueduct_core.intake import recorded_settings


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.forget and options.directory not in [place.directory for place in found]:
        recorded_settings.forget(options.directory)  # what all intakes of a query have in common
    for place in found:
        if options.forget:
            forgotten = recorded_settings.forget(place.directory)
            print(f"{place.directory}: {'forgotten' if forgotten else 'none were kept'}")
            continue
        known = recorded_settings.recorded_in(place.directory)
        if options.json:
            print(json.dumps({"directory": str(place.directory), "settings": known}))
        elif known is None:
            print(f"{place.directory}: none are kept; the next intake settles them")
        else:
            told = "  ".join(f"{option}={value}" for option, value in sorted(known.items()))
            print(f"{place.directory}: {told or 'dials endpoints that it verifies'}")
    return 0
