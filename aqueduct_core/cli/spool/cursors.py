"""``aqueduct spool cursors DIR``: what each query is done with, rewinding it, and letting go of a
dead one."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from aqueduct_core.cli.console import terminal
from aqueduct_core.cli.spool import cursor_orders
from aqueduct_core.cli.spool.offset_specs import FORMS
from aqueduct_core.cli.spool.places import Place, add_look, places
from aqueduct_core.escape import escaped
from aqueduct_core.intake.control.cursor_owners import owners_in
from aqueduct_core.intake.control.cursor_resets import resets_in
from aqueduct_core.spool import SpoolReader

EXAMPLES = [
    (
        "how far each query is, and whose each cursor is",
        "aqueduct spool cursors first-stream/spool",
    ),
    (
        "a stopped query is to read all again",
        "aqueduct spool cursors first-stream/spool --reset query=earliest",
    ),
    (
        "it is to go on with what came since yesterday noon",
        "aqueduct spool cursors first-stream/spool --reset query=2026-11-22T12:00Z",
    ),
    (
        "a query is gone for good, and holds data back",
        "aqueduct spool cursors first-stream/spool --drop query",
    ),
]


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "cursors",
        "what each query is done with",
        "Lists the cursors of queries: what they are done with, how much they have not read, and "
        "to which query each belongs.",
        EXAMPLES,
    )
    act = parser.add_mutually_exclusive_group()
    act.add_argument(
        "--drop", metavar="NAME", help="forget this cursor: it holds no data back any more"
    )
    act.add_argument(
        "--give", metavar="NAME", help="let this cursor go to the next query that comes for it"
    )
    act.add_argument(
        "--reset",
        type=cursor_orders.reset_order,
        metavar="NAME=POSITION",
        help="have the query of this cursor, which was stopped, go on there when it is started "
        f"again with its checkpoint: {FORMS}",
    )
    parser.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.drop is not None:
        return cursor_orders.drop(found, options.drop)
    if options.give is not None:
        return cursor_orders.give(found, options.give)
    if options.reset is not None:
        return cursor_orders.reset(found, *options.reset)
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


def _lines(cursor: dict[str, Any]) -> list[str]:
    name, owner = escaped(cursor["cursor"]), cursor["owner"]
    lines = [
        f"  {name}  {cursor['view']}  {cursor['lag']} rows unread  ({_positions(cursor)})",
        "    belongs to nobody"
        if owner is None
        else escaped(f"    belongs to query {owner['query']}, {owner['where']}, {owner['since']}"),
    ]
    if cursor["reset"] is not None:
        lines.append(f"    {_reset(cursor)}")
    return lines


def _reset(cursor: dict[str, Any]) -> str:
    """For people: that its query will go on elsewhere."""
    to = zip(cursor["logs"], cursor["reset"]["to"], strict=True)
    where = ", ".join(f"{log['partition']}: {at}" for log, at in to)
    return f"was reset {cursor['reset']['at']}: its query goes on at {where} with its next batch"


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
                _positions(cursor) if cursor["reset"] is None else _reset(cursor),
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
    reset = resets_in(place.directory).get(name)
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
        "reset": reset
        and {
            "to": list(reset.to),
            "at": datetime.fromtimestamp(reset.at, UTC).isoformat(timespec="seconds"),
        },
    }
