"""``aqueduct spool cursors DIR``: what each query is done with; and letting go of a dead one."""

from __future__ import annotations

import argparse
import json
from typing import Any

from aqueduct_core.cli.spool_places import Place, places
from aqueduct_core.errors import InvalidOption
from aqueduct_core.spool import InlineSync, Spool, SpoolReader


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.drop is not None:
        return _drop(found, options.drop)
    for place in found:
        with place.reader() as reader:
            told = [_told(place, reader, name) for name in sorted(reader.cursors)]
        if options.json:
            for cursor in told:
                print(json.dumps(cursor))
            continue
        print(f"{place.directory}:{'' if told else ' no cursors'}")
        for cursor in told:
            logs = ", ".join(
                f"{log['partition']}: {log['at']} of {log['end']}" for log in cursor["logs"]
            )
            print(f"  {cursor['cursor']}  {cursor['view']}  {cursor['lag']} rows unread  ({logs})")
    return 0


def _told(place: Place, reader: SpoolReader, name: str) -> dict[str, Any]:
    logs = [
        (log, at, end)
        for log, (at, end) in enumerate(zip(reader.cursors[name], reader.ends(), strict=True))
        if at is not None
    ]
    return {
        "cursor": name,
        "directory": str(place.directory),
        "view": "+".join(sorted({place.kind(log) for log, _, _ in logs}, reverse=True)),
        "lag": sum(max(0, end - at) for _, at, end in logs),
        "logs": [{"partition": log, "at": at, "end": end} for log, at, end in logs],
    }


def _drop(found: list[Place], name: str) -> int:
    known: dict[Place, list[str]] = {}
    for place in found:
        with place.reader() as reader:
            known[place] = sorted(reader.cursors)
    if not any(name in names for names in known.values()):
        names = sorted({each for names in known.values() for each in names})
        raise InvalidOption(
            "BAD_VALUE",
            f"there is no cursor {name!r}",
            f"The cursors are {', '.join(names)}" if names else "There are no cursors",
        )
    for place, names in known.items():
        if name not in names:
            continue
        if place.owner() is not None:
            with place.intake() as intake:
                intake.drop_cursor(name)
        else:
            _drop_alone(place, name)
        print(f"{place.directory}: dropped {name}")
    return 0


def _drop_alone(place: Place, name: str) -> None:
    """Own the spool for a moment; nobody else does."""
    with place.reader() as reader:
        schema, partitions = reader.schema, reader.partitions
    with Spool.open(
        place.directory, schema=schema, partitions=partitions, sync=InlineSync
    ) as spool:
        spool.drop(name)
