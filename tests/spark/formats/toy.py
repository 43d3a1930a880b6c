"""A format that lives in the tests: notes on topics, read from spools and written to files.

Nothing of the connector knows it. Its rows, columns, options, endpoints and sink are here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StructType

from aqueduct_core.errors import SchemaMismatch
from aqueduct_core.intake.settings.service import Limits
from aqueduct_spark.datasource import FormatDataSource
from aqueduct_spark.formats.description import FormatDescription, RowMapping
from aqueduct_spark.options import values
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.options.read_specs import READ_SPECS
from aqueduct_spark.options.source_specs import SOURCE_SPECS, limit_specs
from aqueduct_spark.options.spec import WRITE, OptionSpec
from aqueduct_spark.options.table import OptionTable
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.options.write_specs import WRITE_SPECS
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.sink import SentCounts, Sink, WriteIdentity

TIME = pa.timestamp("us", tz="UTC")
STORED = pa.schema(
    [
        pa.field("note", pa.binary()),
        pa.field("at", TIME),
        pa.field("names", pa.struct([("channel", pa.string()), ("producer", pa.string())])),
    ]
)
DESK = OptionSpec("desk", values.path, None, WRITE, WRITE, "The directory that notes are put in.")


class ToyRows(RowMapping):
    stored_schema = STORED

    def messages(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, rows: RowOptions
    ) -> pa.RecordBatch:
        count = batch.num_rows
        return pa.RecordBatch.from_pydict(
            {
                "value": batch.column("note"),
                "topic": batch.column("names").field("channel"),
                "partition": pa.array(np.full(count, partition, np.int32)),
                "offset": pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64)),
            }
        )

    def events(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        raise ValueError("nothing happens to notes")

    def received_at(self, batch: pa.RecordBatch, row: int) -> int:
        return int(batch.column("at")[row].value)

    def selectable(self, batch: pa.RecordBatch) -> pa.StructArray:
        return batch.column("names")

    def shown(self, message: object) -> str:
        return "a note"


class ToySplitter:
    def split(self, batch: pa.RecordBatch) -> Iterator[list[RowBatch]]:
        notes = batch.column("value").cast(pa.binary()).to_pylist()
        yield [RowBatch(Destination("notes", "ordered"), notes, range(len(notes)))]

    def rest(self) -> Iterator[list[RowBatch]]:
        return iter(())


class ToyDelivery:
    """One file for each task; it is there when the task has succeeded."""

    def __init__(self, file: Path, identity: WriteIdentity) -> None:
        self._file = file
        self._identity = identity
        self._notes: list[bytes] = []

    async def open(self) -> None:
        self._file.parent.mkdir(exist_ok=True)

    async def send(self, batches: Sequence[RowBatch]) -> None:
        self._notes += [note for batch in batches for note in batch.payloads]

    async def complete(self) -> SentCounts:
        self._file.write_bytes(b"\n".join(self._notes))
        count = len(self._notes)
        return SentCounts(self._identity.partition, 1, count, count, 0, self._file.stat().st_size)

    async def give_up(self) -> None:
        self._file.unlink(missing_ok=True)


class ToySink(Sink):
    def check_schema(self, schema: StructType, options: WriteOptions) -> None:
        if schema.fieldNames() != ["value"]:
            raise SchemaMismatch("COLUMN_UNKNOWN", "A note is a value", "Select it alone")

    def splitter(self, options: WriteOptions) -> ToySplitter:
        return ToySplitter()

    def delivery(
        self, options: WriteOptions, identity: WriteIdentity, pool: Pool, token: str | None
    ) -> ToyDelivery:
        return ToyDelivery(Path(options.own["desk"]) / f"{identity.partition}.txt", identity)


class ToyFormat(FormatDescription):
    name = "toy"
    protocol = "tests.toy.adapter:TOY"
    options = OptionTable(
        "toy",
        ("toy", "note"),
        (*SOURCE_SPECS, *limit_specs(Limits), *READ_SPECS, *WRITE_SPECS),
        own=(DESK,),
    )

    def message_schema(self, rows: RowOptions) -> StructType:
        schema = StructType().add("value", "binary").add("topic", "string")
        return schema.add("partition", "integer").add("offset", "long")

    def event_schema(self) -> StructType:
        return StructType()

    def rows(self) -> ToyRows:
        return ToyRows()

    def sink(self) -> ToySink:
        return ToySink()


class ToyDataSource(FormatDataSource):
    description = ToyFormat()
