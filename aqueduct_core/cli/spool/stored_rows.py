"""How ``spool cat`` prints rows: as JSON lines, those of Aqueduct in the form of ``listen -J``, or
by a format."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aqueduct_core.cli.console.output import Format, Origin, PrintedMessage
from aqueduct_core.cli.spool.follow import NewRows
from aqueduct_core.cli.spool.places import Place
from aqueduct_core.cli.spool.values import plain
from aqueduct_core.intake.storage.rows import RowFormat

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are printed. Empty: all."""

    channels: frozenset[str] = frozenset()
    producers: frozenset[str] = frozenset()

    def of(self, rows: pa.RecordBatch, names: Mapping[str, str]) -> pa.RecordBatch:
        """These rows without the others; none of a protocol that has no such ``names``
        (`RowFormat.names`)."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name, wanted in (("channel", self.channels), ("producer", self.producers)):
            column = names.get(name, "")
            if wanted and column not in rows.schema.names:
                return rows.slice(0, 0)
            if wanted:
                rows = rows.filter(pc.is_in(rows[column], pa.array(sorted(wanted))))
        return rows


class RowPrinter:
    """Prints rows of one spool on standard output.

    Args:
        events: the rows are events.
        format: text with tokens in place of JSON.
    """

    def __init__(
        self,
        place: Place,
        form: RowFormat,
        wanted: Wanted,
        *,
        events: bool = False,
        format: Format | None = None,
    ) -> None:
        self._form = form
        self._wanted = wanted
        self._events = events
        self._format = format
        numbered = {} if place.number is None else {"intake": place.number}
        self._head = {"type": "event" if events else "message"}
        self._tail = numbered

    def print(self, new: NewRows, limit: int | None) -> int:
        """Print what is wanted of some rows, so many at most (None: all); how many those were. Of
        rows that were given up it is told that they were."""
        if new.rows is None:
            self._print_skipped(new)
            return 0
        write, printed = sys.stdout.buffer.write, 0
        for row in self._rows(new.rows, new.partition, new.first):
            if printed == limit:
                break
            if line := self._line(row):
                write(line)
                printed += 1
        return printed

    def _print_skipped(self, new: NewRows) -> None:
        if self._format is not None:
            print(
                f"# skipped partition {new.partition} offsets {new.first} to {new.stop - 1}",
                file=sys.stderr,
            )
            return
        skipped = {"type": "skipped", "partition": new.partition, "first": new.first}
        sys.stdout.buffer.write(json.dumps(skipped | {"last": new.stop - 1}).encode() + b"\n")

    def _rows(self, batch: pa.RecordBatch, partition: int, first: int) -> Iterator[dict[str, Any]]:
        if self._events:
            events = self._form.expand_events(batch, partition, first)
            return map(_event, self._wanted.of(events, RowFormat.names).to_pylist())
        expanded = self._form.expand(batch, partition, first, True, True)
        return map(self._form.listed, self._wanted.of(expanded, self._form.names).to_pylist())

    def _line(self, row: dict[str, Any]) -> bytes:
        """Nothing, by a format, for a message that only brings channels along."""
        if self._format is None:
            return json.dumps(self._head | plain(row) | self._tail).encode() + b"\n"
        if row.get("attachments") and not row["value"]:
            return b""
        return self._format.line(_message(row))


def _message(row: dict[str, Any]) -> PrintedMessage:
    return PrintedMessage(
        row["value"],
        tuple((key.encode(), value) for key, value in row.get("headers", ())),
        row.get("num", 0),
        row.get("reliable", True),
        Origin(
            row.get("connection", 0), row.get("channel", 0), row.get("name"), row.get("producer")
        ),
        row["timestamp"].timestamp(),
        row["partition"],
        row["offset"],
    )


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
