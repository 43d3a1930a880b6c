"""``aqueduct spool settings DIR``: who can bring messages into a spool, and settling it anew."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from aqueduct_core.cli.console import terminal
from aqueduct_core.cli.spool.places import Place, add_look, places
from aqueduct_core.errors import SpoolFailed
from aqueduct_core.escape import escaped
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.intake.settings import recorded

EXAMPLES = [
    (
        "with which settings the spool is served",
        "aqueduct spool settings first-stream/spool",
    ),
]


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "settings",
        "who can bring messages",
        "Lists the settings that decide who can bring messages, with which a spool was first "
        "served: those of the listener and of authentication, or that what is dialled is not "
        "verified. An intake that comes with others is refused.",
        EXAMPLES,
    )
    parser.add_argument(
        "--forget",
        action="store_true",
        help="let the next intake settle them anew; one that no query uses any more ends",
    )
    parser.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")
    parser.set_defaults(run=run)


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
        else:
            _print(place, known)
    return 0


def _print(place: Place, known: Mapping[str, str] | None) -> None:
    if known is None:
        print(f"{place.directory}: none are kept; the next intake settles them")
    elif not known:
        print(f"{place.directory}: dials endpoints that it verifies")
    elif terminal.is_terminal(sys.stdout):
        terminal.print_title(str(place.directory))
        rows = [(option, escaped(value, None)) for option, value in sorted(known.items())]
        terminal.console(sys.stdout).print(terminal.table("setting", "value", rows=rows))
    else:
        settings = "  ".join(f"{option}={value}" for option, value in sorted(known.items()))
        print(f"{place.directory}: {settings}")


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
