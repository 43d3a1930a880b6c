"""``aqueduct spool ls DIR``: partitions and segments of a spool with their offsets, and its owner.

On a terminal these are tables, elsewhere plain lines; with ``-J`` a JSON object for each spool.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from aqueduct_core.cli.console import terminal
from aqueduct_core.cli.spool.places import Place, add_look, places
from aqueduct_core.cli.spool.values import age, moment, size, skip_line, skip_values
from aqueduct_core.errors import AqueductError
from aqueduct_core.escape import escaped
from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.spool import SpoolReader
from aqueduct_core.spool.format.segment import Segment

EXAMPLES = [
    (
        "what each intake has stored, and who reads it",
        "aqueduct spool ls first-stream/spool",
    ),
]


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "ls",
        "segments, offsets, owner",
        "Lists partitions and segments with their offsets.",
        EXAMPLES,
    )
    parser.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    for place in places(options.directory):
        with place.reader() as reader:
            listing = _listing(place, reader) | {"now": _now(place)}
        if options.json:
            print(json.dumps(listing))
        elif terminal.is_terminal(sys.stdout):
            _draw(listing)
        else:
            print("\n".join(_lines(listing)))
    return 0


def _listing(place: Place, reader: SpoolReader) -> dict[str, Any]:
    segments = reader.segments
    owner = place.owner()
    in_use = segments[-1] if segments and owner is not None else None
    return {
        "directory": str(place.directory),
        "id": reader.id,
        "epoch": reader.epoch,
        "owner": owner,
        "bytes": reader.bytes,
        "logs": [
            {"partition": partition, "kind": place.kind(partition), "start": start, "end": end}
            for partition, (start, end) in enumerate(
                zip(reader.starts(), reader.ends(), strict=True)
            )
        ],
        "segments": [_segment(segment, segment is in_use) for segment in segments],
        "missing": [list(rows) for rows in reader.missing()],
        "skipped": [skip_values(skip) for skip in reader.skips],
    }


def _now(place: Place) -> dict[str, Any] | None:
    """What its intake does at this moment; None where none runs, or it does not say."""
    if place.owner() is None:
        return None
    try:
        with place.intake() as intake:
            status = intake.observe(ChannelQuery(most=0, peers=0))
    except AqueductError as error:
        return {"error": str(error)}
    return {
        "listen": status.listen,
        "flight": status.flight,
        "http": status.http,
        "connections": status.connections,
        "channels": status.channels,
        "messagesPerSecond": round(status.rates.rows, 1),
        "full": status.full,
        "cursors": [lag.to_json() for lag in status.lag or ()],
    }


def _present(listing: dict[str, Any]) -> list[str]:
    """Lines about the intake that runs."""
    now = listing["now"]
    if now is None:
        return []
    if "error" in now:
        return [f"the intake does not say what it does: {now['error']}"]
    serves = f", page on {now['http']}" if now["http"] else ""
    where = f"listens on {now['listen']}" if now["listen"] else "dials"
    lines = [
        f"{where}{serves}: {now['connections']} connections, {now['channels']} channels, "
        f"{now['messagesPerSecond']} messages/s" + (", full: producers wait" if now["full"] else "")
    ]
    return lines + [
        f"cursor {escaped(lag['cursor'])}: {lag['records']} {lag['view']} behind"
        + (f", about {size(lag['bytes'])}, oldest {lag['seconds']:.1f} s" if lag["records"] else "")
        + ("" if lag["held"] else ", nobody reads it")
        for lag in now["cursors"]
    ]


def _segment(segment: Segment, in_use: bool) -> dict[str, Any]:
    ranges = enumerate(zip(segment.starts, segment.ends, strict=True))
    return {
        "number": segment.number,
        "file": segment.path.name,
        "bytes": segment.size,
        "closed": None if segment.sealed is None or in_use else moment(segment.sealed),
        "rows": [[partition, start, end] for partition, (start, end) in ranges if start < end],
    }


def _lines(listing: dict[str, Any]) -> list[str]:
    lines = [f"{listing['directory']}: {_summary(listing)}"]
    lines += [
        f"  partition {log['partition']} ({log['kind']}): offsets {log['start']} to {log['end']}"
        for log in listing["logs"]
    ]
    lines += [
        f"  {segment['file']}  {size(segment['bytes']):>9}  {_state(segment):<18}  {_rows(segment)}"
        for segment in listing["segments"]
    ]
    about = (*_present(listing), *_missing(listing), *_skipped(listing))
    return lines + [f"  {line}" for line in about]


def _draw(listing: dict[str, Any]) -> None:
    from rich.text import Text

    console = terminal.console(sys.stdout)
    head = Text.assemble((listing["directory"], "bold"), ": ", _summary(listing))
    console.print(head, soft_wrap=True)
    console.print(
        terminal.table(
            "partition",
            "kind",
            "from",
            "to",
            "rows",
            right=("partition", "from", "to", "rows"),
            rows=[
                (
                    str(log["partition"]),
                    log["kind"],
                    str(log["start"]),
                    str(log["end"]),
                    str(log["end"] - log["start"]),
                )
                for log in listing["logs"]
            ],
        )
    )
    console.print(
        terminal.table(
            "segment",
            "size",
            "state",
            "partition: offsets",
            right=("size",),
            rows=[
                (segment["file"], size(segment["bytes"]), _state(segment), _rows(segment))
                for segment in listing["segments"]
            ],
        )
    )
    for line in _present(listing):
        console.print(Text(line))
    for line in _missing(listing):
        console.print(Text(line, "red"))
    for line in _skipped(listing):
        console.print(Text(line, "yellow"))


def _summary(listing: dict[str, Any]) -> str:
    owner = f"process {listing['owner']}" if listing["owner"] is not None else "nobody"
    return (
        f"id {listing['id']}, epoch {listing['epoch']}, owned by {owner}, {size(listing['bytes'])}"
    )


def _state(segment: dict[str, Any]) -> str:
    return "in use" if segment["closed"] is None else f"closed {age(segment['closed'])} ago"


def _rows(segment: dict[str, Any]) -> str:
    rows = (f"{partition}: {start}–{end}" for partition, start, end in segment["rows"])
    return ", ".join(rows) or "no rows"


def _missing(listing: dict[str, Any]) -> list[str]:
    return [
        f"missing: partition {partition}, offsets {start} to {end}"
        for partition, start, end in listing["missing"]
    ]


def _skipped(listing: dict[str, Any]) -> list[str]:
    return [skip_line(skip) for skip in listing["skipped"]]
