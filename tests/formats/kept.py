"""A copy of what a version left, and what it said that is in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa

from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import SpoolReader

HERE = Path(__file__).parent
EVENT_COLUMNS = ("kind", "channel", "producer", "reason")


class Kept:
    """``name``: the folder of a query that ``make`` left."""

    def __init__(self, name: str, directory: Path) -> None:
        self.home = shutil.copytree(HERE / name, directory / name)
        self.spool = self.home / "spool"
        self.directory = self.spool / "intake-0"
        self.batches: dict[int, list[dict[str, Any]]] = {
            int(number): rows for number, rows in self._json("rows.json").items()
        }
        self.events: list[dict[str, Any]] = self._json("events.json")

    def _json(self, name: str) -> Any:
        return json.loads((self.home / name).read_text())

    def rows(self) -> list[dict[str, Any]]:
        """Of all batches, by partition and offset."""
        rows = [row for batch in self.batches.values() for row in batch]
        return sorted(rows, key=lambda row: (row["partition"], row["offset"]))

    def last_offset(self) -> dict[str, Any]:
        """Where the last batch of the checkpoint ends."""
        files = (self.home / "checkpoint" / "offsets").iterdir()
        newest = max(files, key=lambda file: int(file.name))
        offset: dict[str, Any] = json.loads(newest.read_text().splitlines()[-1])
        return offset


def stored(reader: SpoolReader, partition: int) -> list[dict[str, Any]]:
    """The rows of a log as ``rows.json`` has them."""
    found: list[dict[str, Any]] = []
    offset = reader.starts()[partition]
    for batch in reader.read(partition, offset, reader.ends()[partition]):
        found += as_json(ROWS.expand(batch, partition, offset, True, False))
        offset += batch.num_rows
    return found


def as_json(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    index = rows.schema.get_field_index("timestamp")
    times = rows.column(index).cast(pa.int64()).to_pylist()
    return [
        {
            **{name: row[name] for name in ("channel", "producer", "messageNum", "reliable")},
            "partition": row["partition"],
            "offset": row["offset"],
            "value": row["value"].decode(),
            "timestamp": time,
            "headers": [[each["key"], each["value"].decode()] for each in row["headers"] or ()],
        }
        for row, time in zip(rows.to_pylist(), times, strict=True)
    ]
