"""``aqueduct spool cursors DIR``: what each query is done with, and letting go of a dead one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aqueduct_core.cli.spool.places import Place, places
from aqueduct_core.errors import InvalidOption
from aqueduct_core.escape import escaped
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import CANCELS
from aqueduct_core.intake.control.cursor_owners import CursorOwners, owners_in
from aqueduct_core.spool import InlineSync, Spool, SpoolReader


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.drop is not None:
        return _act(found, options.drop, "dropped", IntakeClient.drop_cursor, _drop_alone)
    if options.give is not None:
        return _act(found, options.give, "given away", IntakeClient.give_cursor, _give_alone)
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
            name = escaped(cursor["cursor"])
            print(f"  {name}  {cursor['view']}  {cursor['lag']} rows unread  ({logs})")
            owner = cursor["owner"]
            print(
                "    belongs to nobody"
                if owner is None
                else escaped(
                    f"    belongs to query {owner['query']}, {owner['where']}, {owner['since']}"
                )
            )
    return 0


def _told(place: Place, reader: SpoolReader, name: str) -> dict[str, Any]:
    logs = [
        (log, at, end)
        for log, (at, end) in enumerate(zip(reader.cursors[name], reader.ends(), strict=True))
        if at is not None
    ]
    owner = owners_in(place.directory).get(name)
    return {
        "cursor": name,
        "directory": str(place.directory),
        "view": "+".join(sorted({place.kind(log) for log, _, _ in logs}, reverse=True)),
        "lag": sum(max(0, end - at) for _, at, end in logs),
        "logs": [{"partition": log, "at": at, "end": end} for log, at, end in logs],
        "owner": owner
        and {
            "query": owner.query,
            "where": owner.where,
            "since": datetime.fromtimestamp(owner.since, UTC).isoformat(timespec="seconds"),
        },
    }


def _act(
    found: list[Place],
    name: str,
    done: str,
    through: Callable[[IntakeClient, str], None],
    alone: Callable[[Place, str], None],
) -> int:
    """Do it to a cursor, and to the one that its query has beside it."""
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
        for each in (name, name + CANCELS):
            if each not in names:
                continue
            place.act(partial(_named, through, each), partial(alone, place, each))
            print(f"{place.directory}: {done} {escaped(each)}")
    return 0


def _named(through: Callable[[IntakeClient, str], None], name: str, intake: IntakeClient) -> None:
    through(intake, name)


def _drop_alone(place: Place, name: str) -> None:
    with _owned(place) as spool:
        spool.drop(name)
        CursorOwners(place.directory).forget(name)


def _give_alone(place: Place, name: str) -> None:
    with _owned(place):
        CursorOwners(place.directory).forget(name)


def _owned(place: Place) -> Spool:
    """Own the spool for a moment; nobody else does."""
    with place.reader() as reader:
        schema, partitions = reader.schema, reader.partitions
    return Spool.open(place.directory, schema=schema, partitions=partitions, sync=InlineSync)
