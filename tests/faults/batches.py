"""What foreachBatch kept, batch by batch, and what Spark's checkpoint says of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from tests.faults.ledger import COLUMNS
from tests.faults.tables import SCHEMA


def keeper(table: Path) -> Callable[[DataFrame, int], None]:
    """For foreachBatch: each batch a Parquet directory, written anew when it comes again."""

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(table / f"batch={number}"))

    return keep


def batches(table: Path) -> dict[int, pa.Table]:
    """What was kept, by batch, all columns; in the order of the source."""
    found = {}
    for folder in table.glob("batch=*"):
        if (folder / "_SUCCESS").exists():
            parts = [pq.ParquetFile(file).read() for file in folder.glob("part-*")]
            rows = pa.concat_tables(parts) if parts else SCHEMA.empty_table()
            order = [("partition", "ascending"), ("offset", "ascending")]
            found[int(folder.name.split("=")[1])] = rows.sort_by(order)
    return found


def everything(table: Path) -> pa.Table:
    """All batches in one, with the columns of the ledger."""
    parts = [part.select(list(COLUMNS)).cast(SCHEMA) for part in batches(table).values()]
    return pa.concat_tables([SCHEMA.empty_table(), *parts])


def logged(checkpoint: Path, kind: str) -> list[int]:
    """The batches in ``offsets`` or ``commits``."""
    folder = checkpoint / kind
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def end_of(checkpoint: Path, batch: int) -> tuple[int, ...]:
    """Where a batch ends in the spool of intake 0."""
    offset = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    return tuple(offset["spool"]["0"]["to"])
