"""``aqueduct spool cat DIR``: stored rows as JSON lines, in the form of ``listen -J``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa

from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.output import json_value
from aqueduct_core.cli.console.terminal import ProgressBar, is_terminal
from aqueduct_core.cli.spool.places import Place, add_look, only_place, places
from aqueduct_core.cli.spool.values import exact
from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import SpoolReader

PROGRESS_ROWS = 1_000
"""Between two looks at the clock."""


def add(looks: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_look(
        looks,
        "cat",
        "print stored rows",
        "Prints stored messages, or events, as JSON lines in the form of listen -J, with their "
        "partitions and offsets.",
    )
    parser.add_argument("--partition", type=int, metavar="N", help="only this one")
    parser.add_argument("--from", dest="start", type=int, metavar="OFFSET", help="first offset")
    parser.add_argument("--to", dest="end", type=int, metavar="OFFSET", help="end, exclusive")
    parser.add_argument("--events", action="store_true", help="the log of events")
    parser.add_argument(
        "-c", dest="count", type=arguments.count, metavar="N", help="stop after N rows"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.start is not None or options.end is not None:
        found = [only_place(options.directory, "a range of offsets")]
    left = options.count
    for place in found:
        with place.reader() as reader:
            ranges = _ranges(place, reader, options)
            rows = sum(end - start for _, start, end in ranges)
            with _progress(place, rows if left is None else min(rows, left)) as bar:
                printed = _print(place, reader, ranges, left, bar)
        if left is not None:
            left -= printed
            if not left:
                return 0
    return 0


def _progress(place: Place, rows: int) -> AbstractContextManager[ProgressBar | None]:
    """Where a person waits and does not see the rows themselves."""
    if is_terminal(sys.stdout):
        return nullcontext()
    return ProgressBar(place.directory.name, "rows", rows)


def _print(
    place: Place,
    reader: SpoolReader,
    ranges: list[tuple[int, int, int]],
    most: int | None,
    bar: ProgressBar | None,
) -> int:
    """Print so many rows at most; how many there were."""
    printed = 0
    for partition, start, end in _stretches(reader, ranges):
        for line in _lines(place, reader, partition, start, end):
            print(line)
            printed += 1
            if bar is not None and printed % PROGRESS_ROWS == 0:
                bar.update(printed)
            if printed == most:
                return printed
        sys.stdout.flush()
    return printed


def _ranges(
    place: Place, reader: SpoolReader, options: argparse.Namespace
) -> list[tuple[int, int, int]]:
    """(partition, start, end) of all that is asked for.

    Raises:
        InvalidOption, SpoolFailed.
    """
    if not ROWS.reads(reader.schema):
        raise SpoolFailed(
            "VERSION",
            f"{place.directory} holds the columns {reader.schema.names}, which are not messages",
            "Use the release that wrote it",
        )
    kind = "events" if options.events else "messages"
    chosen = [each for each in range(reader.partitions) if place.kind(each) == kind]
    if options.partition is not None:
        if options.partition not in chosen:
            raise InvalidOption(
                "BAD_VALUE",
                f"--partition is {options.partition}, and the {kind} of {place.directory} are in"
                f" {chosen}",
                "Name one of these",
            )
        chosen = [options.partition]
    if (options.start is not None or options.end is not None) and len(chosen) > 1:
        raise InvalidOption(
            "MISSING", "--from and --to are offsets of one partition", "Name it with --partition"
        )
    starts, ends = reader.starts(), reader.ends()
    ranges = []
    for partition in chosen:
        start = starts[partition] if options.start is None else options.start
        end = ends[partition] if options.end is None else options.end
        if not 0 <= start <= end:
            raise InvalidOption(
                "BAD_VALUE",
                f"the range {start} to {end} is none",
                f"Stored are the offsets {starts[partition]} to {ends[partition]}",
            )
        ranges.append((partition, start, end))
    return ranges


def _stretches(
    reader: SpoolReader, ranges: list[tuple[int, int, int]]
) -> Iterator[tuple[int, int, int]]:
    """The same without what was skipped, of which a line tells."""
    for partition, start, end in ranges:
        for first, stop, state in reader.stretches(partition, start, end):
            if state == "skipped":
                skipped = {"type": "skipped", "partition": partition, "first": first}
                print(json.dumps(skipped | {"last": stop - 1}))
            else:
                yield partition, first, stop


def _lines(
    place: Place, reader: SpoolReader, partition: int, start: int, end: int
) -> Iterator[str]:
    at = start
    form = _event if place.kind(partition) == "events" else _message
    numbered = {} if place.number is None else {"intake": place.number}
    for batch in reader.read(partition, start, end):
        for row in _rows(batch, partition, at, form is _event):
            yield json.dumps(form(row) | numbered)
        at += batch.num_rows


def _rows(batch: pa.RecordBatch, partition: int, at: int, events: bool) -> list[dict[str, Any]]:
    expanded = (
        ROWS.expand_events(batch, partition, at)
        if events
        else ROWS.expand(batch, partition, at, True, True)
    )
    found: list[dict[str, Any]] = expanded.to_pylist()
    return found


def _message(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "message",
        "connection": row["connectionId"],
        "channel": row["channelId"],
        "name": row["channel"],
        "producer": row["producer"],
        "num": row["messageNum"],
        "reliable": row["reliable"],
        "headers": [[pair["key"], json_value(pair["value"])] for pair in row["headers"] or ()],
        "attachments": [each["channelId"] for each in row["attachments"] or ()],
        "value": None if row["value"] is None else json_value(row["value"]),
        "timestamp": exact(row["timestamp"]),
        "partition": row["partition"],
        "offset": row["offset"],
    }


def _event(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "event",
        "kind": row["kind"],
        "connection": row["connectionId"],
        "channel": row["channelId"],
        "name": row["channel"],
        "producer": row["producer"],
        "reason": row["reason"],
        "counts": row["counts"] or {},
        "first": row["first"],
        "last": row["last"],
        "timestamp": exact(row["timestamp"]),
        "offset": row["offset"],
    }
