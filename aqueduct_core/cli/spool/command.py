"""``aqueduct spool ls|cat|verify|cursors|settings|skip DIR``: look into the spools of intakes.

DIR is the directory of one intake, or the ``spool`` of a query with ``intake-0``, … below it.
Nothing is changed, and no running intake is in the way; only ``cursors --drop`` and ``--give``,
``settings --forget`` and ``skip`` write.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tqdm import tqdm

from aqueduct_core.cli import arguments
from aqueduct_core.cli.spool import cat, cursors, settings, skip
from aqueduct_core.cli.spool.places import Place, places
from aqueduct_core.errors import SpoolFailed
from aqueduct_core.escape import escaped
from aqueduct_core.spool import Rows, SegmentCheck, Skip, SpoolReader
from aqueduct_core.spool.losses import skip_command
from aqueduct_core.spool.skips import skipped_in


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = verbs.add_parser(
        "spool",
        help="look into the durable log of intakes",
        description="Looks into the spools of intakes, whether they run or not.",
    )
    looks = parser.add_subparsers(title="what", metavar="WHAT", required=True)

    def look(name: str, help: str, description: str) -> argparse.ArgumentParser:
        added = looks.add_parser(name, help=help, description=description)
        added.add_argument(
            "directory",
            type=Path,
            metavar="DIR",
            help="of one intake, or the spool option of a query",
        )
        return added

    ls_parser = look(
        "ls", "segments, offsets, owner", "Lists logs and segments with their offsets."
    )
    ls_parser.set_defaults(run=run_ls)
    cat_parser = look(
        "cat",
        "print stored rows",
        "Prints stored messages, or events, as JSON lines in the form of listen -J, with their "
        "partitions and offsets.",
    )
    cat_parser.add_argument("--partition", type=int, metavar="N", help="only this one")
    cat_parser.add_argument("--from", dest="start", type=int, metavar="OFFSET", help="first offset")
    cat_parser.add_argument("--to", dest="end", type=int, metavar="OFFSET", help="end, exclusive")
    cat_parser.add_argument("--events", action="store_true", help="the log of events")
    cat_parser.add_argument(
        "-c", dest="count", type=arguments.count, metavar="N", help="stop after N rows"
    )
    cat_parser.set_defaults(run=cat.run)
    verify_parser = look(
        "verify",
        "check every checksum",
        "Reads every byte and checks every record. Exit code 1 when anything is damaged or lost "
        "but rows that were skipped.",
    )
    verify_parser.set_defaults(run=run_verify)
    cursors_parser = look(
        "cursors",
        "what each query is done with",
        "Lists the cursors of queries: what they are done with, how much they have not read, and "
        "to which query each belongs.",
    )
    act = cursors_parser.add_mutually_exclusive_group()
    act.add_argument(
        "--drop", metavar="NAME", help="forget this cursor: it holds no data back any more"
    )
    act.add_argument(
        "--give", metavar="NAME", help="let this cursor go to the next query that comes for it"
    )
    cursors_parser.set_defaults(run=cursors.run)
    settings_parser = look(
        "settings",
        "who can bring messages",
        "Lists the settings that decide who can bring messages, with which a spool was first "
        "served: those of the listener and of authentication, or that what is dialled is not "
        "verified. An intake that comes with others is refused.",
    )
    settings_parser.add_argument(
        "--forget",
        action="store_true",
        help="let the next intake settle them anew; one that no query uses any more ends",
    )
    settings_parser.set_defaults(run=settings.run)
    skip_parser = look(
        "skip",
        "give up damaged rows",
        "Gives up rows that are damaged or lost, so that queries go on behind them. Rows that can"
        " be read are refused. An event row 'skipped' tells of it. Works beside a running intake.",
    )
    skip.add_arguments(skip_parser)
    for parser in (ls_parser, verify_parser, cursors_parser, settings_parser):
        parser.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")


def run_ls(options: argparse.Namespace) -> int:
    for place in places(options.directory):
        with place.reader() as reader:
            told = _told(place, reader)
        print(json.dumps(told) if options.json else _page(told))
    return 0


def _told(place: Place, reader: SpoolReader) -> dict[str, Any]:
    segments = reader.segments
    owner = place.owner()
    return {
        "directory": str(place.directory),
        "id": reader.id,
        "epoch": reader.epoch,
        "owner": owner,
        "bytes": reader.bytes,
        "logs": [
            {"partition": log, "kind": place.kind(log), "start": start, "end": end}
            for log, (start, end) in enumerate(zip(reader.starts(), reader.ends(), strict=True))
        ],
        "segments": [
            {
                "number": segment.number,
                "file": segment.path.name,
                "bytes": segment.size,
                "closed": None
                if segment.sealed is None or (owner is not None and segment is segments[-1])
                else _moment(segment.sealed),
                "rows": [
                    [log, start, end]
                    for log, (start, end) in enumerate(
                        zip(segment.starts, segment.ends, strict=True)
                    )
                    if start < end
                ],
            }
            for segment in segments
        ],
        "missing": [list(rows) for rows in reader.missing()],
        "skipped": [_skipped(skip) for skip in reader.skips],
    }


def _page(told: dict[str, Any]) -> str:
    owner = f"process {told['owner']}" if told["owner"] is not None else "nobody"
    lines = [
        f"{told['directory']}: id {told['id']}, epoch {told['epoch']}, owned by {owner},"
        f" {_size(told['bytes'])}"
    ]
    lines += [
        f"  partition {log['partition']} ({log['kind']}): offsets {log['start']} to {log['end']}"
        for log in told["logs"]
    ]
    for segment in told["segments"]:
        age = "in use" if segment["closed"] is None else f"closed {_age(segment['closed'])} ago"
        rows = ", ".join(f"{log}: {start}–{end}" for log, start, end in segment["rows"])
        lines.append(
            f"  {segment['file']}  {_size(segment['bytes']):>9}  {age:<18}  {rows or 'no rows'}"
        )
    lines += [
        f"  missing: partition {log}, offsets {start} to {end}"
        for log, start, end in told["missing"]
    ]
    lines += [_line(skip) for skip in told["skipped"]]
    return "\n".join(lines)


def _skipped(skip: Skip) -> dict[str, Any]:
    return {
        "partition": skip.partition,
        "start": skip.start,
        "end": skip.end,
        "reason": skip.reason,
        "time": _moment(skip.time),
    }


def _line(skip: dict[str, Any]) -> str:
    rows = Rows(skip["partition"], skip["start"], skip["end"])
    return f"  skipped: {_offsets(rows)}, {_age(skip['time'])} ago: {escaped(skip['reason'])}"


def run_verify(options: argparse.Namespace) -> int:
    lost: list[str] = []
    for place in places(options.directory):
        with place.reader() as reader:
            lost += _verify(place, reader, options.json)
    if lost:
        raise SpoolFailed(
            "CORRUPT",
            f"{options.directory}: {'; '.join(lost)}",
            "Check the disk; restore the segments from a copy, or give the rows up with aqueduct"
            " spool skip, as it is printed for each",
        )
    return 0


def _verify(place: Place, reader: SpoolReader, as_json: bool) -> list[str]:
    """Print what was found, and give what is lost in words."""
    found: list[SegmentCheck] = []
    with tqdm(
        total=reader.bytes,
        unit="B",
        unit_scale=True,
        desc=place.directory.name,
        file=sys.stderr,
        leave=False,
        disable=not sys.stderr.isatty(),
    ) as bar:
        for checked in reader.verify():
            found.append(checked)
            bar.update(checked.segment.size)
    damage = [
        (checked.segment.path.name, start, stop)
        for checked in found
        for start, stop in checked.damage
    ]
    missed = [*reader.missing(), *(rows for checked in found for rows in checked.lost)]
    lost = [rows for each in missed for rows in _not_skipped(each, reader.skips)]
    told = {
        "directory": str(place.directory),
        "segments": len(found),
        "records": sum(checked.records for checked in found),
        "rows": sum(checked.rows for checked in found),
        "bytes": reader.bytes,
        "damage": [list(each) for each in damage],
        "lost": [list(rows) for rows in lost],
        "skipped": [_skipped(skip) for skip in reader.skips],
        "catalog": "good" if reader.catalog_readable else "to be built anew",
    }
    # a head, or the end of a payload-less file: no row is lost, and yet it is damage
    where = [
        f"{checked.segment.path.name}, bytes {start} to {stop}"
        for checked in found
        for start, stop in checked.damage
        if not checked.lost
    ]
    bad = [f"{_offsets(rows)} are lost" for rows in lost] or where
    if as_json:
        print(json.dumps(told))
    else:
        _print_verified(told, bool(bad), damage, lost)
    return bad


def _not_skipped(rows: Rows, skips: Sequence[Skip]) -> list[Rows]:
    left = skipped_in(skips, rows.partition).missing(rows.start, rows.end)
    return [Rows(rows.partition, start, end) for start, end in left]


def _print_verified(
    told: dict[str, Any], bad: bool, damage: list[tuple[str, int, int]], lost: list[Rows]
) -> None:
    print(
        f"{told['directory']}: {told['segments']} segments, {told['records']} records,"
        f" {told['rows']} rows, {_size(told['bytes'])}: {'DAMAGED' if bad else 'good'}"
    )
    for name, start, stop in damage:
        print(f"  {name}: bytes {start} to {stop} are damaged")
    for rows in lost:
        print(f"  {_offsets(rows)} are lost; to give them up:")
        print(f"    {skip_command(told['directory'], *rows)}")
    for skipped in told["skipped"]:
        print(_line(skipped))
    if told["catalog"] != "good":
        print("  the catalog cannot be used: the next owner builds it anew")


def _offsets(rows: Rows) -> str:
    return f"partition {rows.partition}, offsets {rows.start} to {rows.end} (exclusive)"


def _moment(seconds: float) -> str:
    stamp = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
    return stamp.replace("+00:00", "Z")


def _age(moment: str) -> str:
    seconds = max(0, int(time.time() - datetime.fromisoformat(moment).timestamp()))
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"
