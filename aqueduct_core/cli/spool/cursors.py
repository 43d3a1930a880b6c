"""``aqueduct spool cursors DIR``: what each query is done with, and letting go of a dead one."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

from aqueduct_core.cli.console import terminal
from aqueduct_core.cli.spool.places import Place, add_look, places
from aqueduct_core.errors import InvalidOption
from aqueduct_core.escape import escaped
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import CANCELS
from aqueduct_core.intake.control.cursor_owners import CursorOwners, owners_in
from aqueduct_core.spool import InlineSync, Spool, SpoolReader


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "cursors",
        "what each query is done with",
        "Lists the cursors of queries: what they are done with, how much they have not read, and "
        "to which query each belongs.",
    )
    act = parser.add_mutually_exclusive_group()
    act.add_argument(
        "--drop", metavar="NAME", help="forget this cursor: it holds no data back any more"
    )
    act.add_argument(
        "--give", metavar="NAME", help="let this cursor go to the next query that comes for it"
    )
    parser.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.drop is not None:
        return _act(found, options.drop, "dropped", IntakeClient.drop_cursor, _drop_alone)
    if options.give is not None:
        return _act(found, options.give, "given away", IntakeClient.give_cursor, _give_alone)
    for place in found:
        with place.reader() as reader:
            cursors = [_cursor(place, reader, name) for name in sorted(reader.cursors)]
        if options.json:
            for cursor in cursors:
                print(json.dumps(cursor))
        elif cursors and terminal.is_terminal(sys.stdout):
            _draw(place, cursors)
        else:
            print(f"{place.directory}:{'' if cursors else ' no cursors'}")
            for cursor in cursors:
                print("\n".join(_lines(cursor)))
    return 0


def _lines(cursor: dict[str, Any]) -> tuple[str, str]:
    name, owner = escaped(cursor["cursor"]), cursor["owner"]
    return (
        f"  {name}  {cursor['view']}  {cursor['lag']} rows unread  ({_positions(cursor)})",
        "    belongs to nobody"
        if owner is None
        else escaped(f"    belongs to query {owner['query']}, {owner['where']}, {owner['since']}"),
    )


def _draw(place: Place, cursors: list[dict[str, Any]]) -> None:
    terminal.print_title(str(place.directory))
    rows = []
    for cursor in cursors:
        owner = cursor["owner"] or {"query": "nobody", "where": "", "since": ""}
        rows.append(
            (
                escaped(cursor["cursor"]),
                cursor["view"],
                str(cursor["lag"]),
                _positions(cursor),
                *(escaped(owner[key]) for key in ("query", "where", "since")),
            )
        )
    columns = ("cursor", "view", "unread", "partition: at", "belongs to", "where", "since")
    drawn = terminal.table(*columns, right=("unread",), rows=rows)
    terminal.console(sys.stdout).print(drawn)


def _positions(cursor: dict[str, Any]) -> str:
    return ", ".join(f"{log['partition']}: {log['at']} of {log['end']}" for log in cursor["logs"])


def _cursor(place: Place, reader: SpoolReader, name: str) -> dict[str, Any]:
    positions = [
        (partition, at, end)
        for partition, (at, end) in enumerate(zip(reader.cursors[name], reader.ends(), strict=True))
        if at is not None
    ]
    views = {place.kind(partition) for partition, _, _ in positions}
    owner = owners_in(place.directory).get(name)
    return {
        "cursor": name,
        "directory": str(place.directory),
        "view": "+".join(sorted(views, reverse=True)),
        "lag": sum(max(0, end - at) for _, at, end in positions),
        "logs": [
            {"partition": partition, "at": at, "end": end} for partition, at, end in positions
        ],
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
