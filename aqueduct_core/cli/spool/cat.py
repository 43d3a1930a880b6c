"""``aqueduct spool cat DIR``: stored rows as JSON lines; those of Aqueduct in the form of
``listen -J``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from aqueduct_core.cli.console import arguments
from aqueduct_core.cli.console.terminal import ProgressBar, is_terminal
from aqueduct_core.cli.spool.places import Place, add_look, only_place, places
from aqueduct_core.cli.spool.values import plain
from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.intake.storage.rows import RowFormat
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
            form = _form(place, reader)
            ranges = _ranges(place, reader, options)
            rows = sum(end - start for _, start, end in ranges)
            with _progress(place, rows if left is None else min(rows, left)) as bar:
                printed = _print(place, reader, form, ranges, left, bar)
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
    form: RowFormat,
    ranges: list[tuple[int, int, int]],
    most: int | None,
    bar: ProgressBar | None,
) -> int:
    """Print so many rows at most; how many there were."""
    printed = 0
    for partition, start, end in _stretches(reader, ranges):
        for line in _lines(place, reader, form, partition, start, end):
            print(line)
            printed += 1
            if bar is not None and printed % PROGRESS_ROWS == 0:
                bar.update(printed)
            if printed == most:
                return printed
        sys.stdout.flush()
    return printed


def _form(place: Place, reader: SpoolReader) -> RowFormat:
    """What knows the rows of the spool. Raises SpoolFailed.VERSION."""
    form = place.row_format()
    if not form.reads(reader.schema):
        raise SpoolFailed(
            "VERSION",
            f"{place.directory} holds the columns {reader.schema.names}, which are not messages",
            "Use the release that wrote it",
        )
    return form


def _ranges(
    place: Place, reader: SpoolReader, options: argparse.Namespace
) -> list[tuple[int, int, int]]:
    """(partition, start, end) of all that is asked for.

    Raises:
        InvalidOption: BAD_VALUE, MISSING.
    """
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
    place: Place, reader: SpoolReader, form: RowFormat, partition: int, start: int, end: int
) -> Iterator[str]:
    at = start
    events = place.kind(partition) == "events"
    numbered = {} if place.number is None else {"intake": place.number}
    for batch in reader.read(partition, start, end):
        if events:
            rows = map(_event, form.expand_events(batch, partition, at).to_pylist())
        else:
            expanded = form.expand(batch, partition, at, True, True)
            rows = map(form.listed, expanded.to_pylist())
        for row in rows:
            yield json.dumps({"type": "event" if events else "message"} | plain(row) | numbered)
        at += batch.num_rows


def _event(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": row["kind"],
        "connection": row["connectionId"],
        "channel": row["channelId"],
        "name": row["channel"],
        "producer": row["producer"],
        "reason": row["reason"],
        "counts": row["counts"] or {},
        "first": row["first"],
        "last": row["last"],
        "timestamp": row["timestamp"],
        "offset": row["offset"],
    }
