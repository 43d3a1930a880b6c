"""``aqueduct spool verify DIR``: read every byte, check every record, name what is damaged."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from aqueduct_core.cli.console import terminal
from aqueduct_core.cli.spool.places import Place, add_look, places
from aqueduct_core.cli.spool.values import offsets, size, skip_line, skip_values
from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import OffsetRange, SegmentCheck, Skip, SpoolReader
from aqueduct_core.spool.losses import skip_command
from aqueduct_core.spool.skips import skipped_in

EXAMPLES = [
    (
        "every checksum, read from the disk",
        "aqueduct spool verify first-stream/spool",
    ),
]


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "verify",
        "check every checksum",
        "Reads every byte and checks every record. Exit code 1 when anything is damaged or lost "
        "but rows that were skipped.",
        EXAMPLES,
    )
    parser.add_argument("-J", dest="json", action="store_true", help="a JSON object a line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
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
    checks = _checks(place, reader)
    damage = [
        (check.segment.path.name, start, stop) for check in checks for start, stop in check.damage
    ]
    gone = [*reader.missing(), *(rows for check in checks for rows in check.lost)]
    lost = [rows for each in gone for rows in _not_skipped(each, reader.skips)]
    report = {
        "directory": str(place.directory),
        "segments": len(checks),
        "records": sum(check.records for check in checks),
        "rows": sum(check.rows for check in checks),
        "bytes": reader.bytes,
        "damage": [list(each) for each in damage],
        "lost": [list(rows) for rows in lost],
        "skipped": [skip_values(skip) for skip in reader.skips],
        "catalog": "good" if reader.catalog_readable else "to be built anew",
    }
    # a head, or the end of a payload-less file: no row is lost, and yet it is damage
    where = [
        f"{check.segment.path.name}, bytes {start} to {stop}"
        for check in checks
        for start, stop in check.damage
        if not check.lost
    ]
    bad = [f"{offsets(rows)} are lost" for rows in lost] or where
    if as_json:
        print(json.dumps(report))
    else:
        _print(report, bool(bad), damage, lost)
    return bad


def _checks(place: Place, reader: SpoolReader) -> list[SegmentCheck]:
    found: list[SegmentCheck] = []
    done = 0
    with terminal.ProgressBar(place.directory.name, "bytes", reader.bytes) as bar:
        bar.update(done)
        for check in reader.verify():
            found.append(check)
            done += check.segment.size
            bar.update(done)
    return found


def _not_skipped(rows: OffsetRange, skips: Sequence[Skip]) -> list[OffsetRange]:
    left = skipped_in(skips, rows.partition).missing(rows.start, rows.end)
    return [OffsetRange(rows.partition, start, end) for start, end in left]


def _print(
    report: dict[str, Any], bad: bool, damage: list[tuple[str, int, int]], lost: list[OffsetRange]
) -> None:
    terminal.print_graded(
        f"{report['directory']}: {report['segments']} segments, {report['records']} records,"
        f" {report['rows']} rows, {size(report['bytes'])}: ",
        "DAMAGED" if bad else "good",
        "bad" if bad else "ok",
    )
    for name, start, stop in damage:
        print(f"  {name}: bytes {start} to {stop} are damaged")
    for rows in lost:
        print(f"  {offsets(rows)} are lost; to give them up:")
        print(f"    {skip_command(report['directory'], *rows)}")
    for skip in report["skipped"]:
        print(f"  {skip_line(skip)}")
    if report["catalog"] != "good":
        print("  the catalog cannot be used: the next owner builds it anew")
