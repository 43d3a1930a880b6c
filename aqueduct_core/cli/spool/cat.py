"""``aqueduct spool cat DIR``: stored rows as JSON lines, in the form of ``listen -J``."""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from aqueduct_core.cli.spool.places import Place, only_place, places
from aqueduct_core.errors import InvalidOption, SpoolFailed
from aqueduct_core.intake.storage.event_rows import expand_events
from aqueduct_core.intake.storage.schema import SPOOL_SCHEMA, expand
from aqueduct_core.spool import SpoolReader


def run(options: argparse.Namespace) -> int:
    found = places(options.directory)
    if options.start is not None or options.end is not None:
        found = [only_place(options.directory, "a range of offsets")]
    left = options.count
    for place in found:
        with place.reader() as reader:
            for partition, start, end in _stretches(reader, _ranges(place, reader, options)):
                for line in _lines(place, reader, partition, start, end):
                    print(line)
                    if left is not None:
                        left -= 1
                        if not left:
                            return 0
                sys.stdout.flush()
    return 0


def _ranges(
    place: Place, reader: SpoolReader, options: argparse.Namespace
) -> list[tuple[int, int, int]]:
    """(partition, start, end) of all that is asked for.

    Raises:
        InvalidOption, SpoolFailed.
    """
    if not reader.schema.equals(SPOOL_SCHEMA):
        raise SpoolFailed(
            "VERSION",
            f"{place.directory} holds the columns {reader.schema.names}, which are not messages",
            "Use the release that wrote it",
        )
    kind = "events" if options.events else "messages"
    logs = [log for log in range(reader.partitions) if place.kind(log) == kind]
    if options.partition is not None:
        if options.partition not in logs:
            raise InvalidOption(
                "BAD_VALUE",
                f"--partition is {options.partition}, and the {kind} of {place.directory} are in"
                f" {logs}",
                "Name one of these",
            )
        logs = [options.partition]
    if (options.start is not None or options.end is not None) and len(logs) > 1:
        raise InvalidOption(
            "MISSING", "--from and --to are offsets of one partition", "Name it with --partition"
        )
    starts, ends = reader.starts(), reader.ends()
    ranges = []
    for log in logs:
        start = starts[log] if options.start is None else options.start
        end = ends[log] if options.end is None else options.end
        if not 0 <= start <= end:
            raise InvalidOption(
                "BAD_VALUE",
                f"the range {start} to {end} is none",
                f"Stored are the offsets {starts[log]} to {ends[log]}",
            )
        ranges.append((log, start, end))
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
    rows = expand_events(batch, at) if events else expand(batch, partition, at, True, True)
    found: list[dict[str, Any]] = rows.to_pylist()
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
        "headers": [[pair["key"], _value(pair["value"])] for pair in row["headers"] or ()],
        "attachments": [each["channelId"] for each in row["attachments"] or ()],
        "value": _value(row["value"]),
        "timestamp": _moment(row["timestamp"]),
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
        "timestamp": _moment(row["timestamp"]),
        "offset": row["offset"],
    }


def _value(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _moment(at: datetime | None) -> str | None:
    if at is None:
        return None
    stamp = at.astimezone(UTC).isoformat(timespec="microseconds")
    return stamp.replace("+00:00", "Z")
