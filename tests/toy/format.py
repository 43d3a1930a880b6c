"""``format("toy")``: topics as rows, and rows to a topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
    VarcharType,
)

from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_core.intake.settings.service import Limits
from aqueduct_core.transport.tls.credentials import ClientTls
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
from tests.toy.adapter import ADAPTER
from tests.toy.client import ToyClient
from tests.toy.spools import PROTOCOL

TOPIC = OptionSpec("topic", values.text, None, WRITE, WRITE, "The topic that rows are sent to.")


class ToyMapping(RowMapping):
    stored_schema = ADAPTER.rows.schema

    def messages(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, rows: RowOptions
    ) -> pa.RecordBatch:
        return ADAPTER.rows.expand(batch, partition, first_offset, False, False)

    def events(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        return ADAPTER.rows.expand_events(batch, partition, first_offset)

    def received_at(self, batch: pa.RecordBatch, row: int) -> int:
        return ADAPTER.rows.newest_timestamp(batch.slice(row, 1))

    def selectable(self, batch: pa.RecordBatch) -> pa.RunEndEncodedArray:
        of = batch.column("of")
        names = [of.values.field("topic"), of.values.field("connection")]
        return pa.RunEndEncodedArray.from_arrays(
            of.run_ends, pa.StructArray.from_arrays(names, ["channel", "producer"])
        )

    def shown(self, message: object) -> str:
        return "a message of a topic"


class ToySplitter:
    def split(self, batch: pa.RecordBatch) -> Iterator[list[RowBatch]]:
        payloads = batch.column("value").cast(pa.binary()).to_pylist()
        yield [RowBatch(Destination("", "ordered"), payloads, range(len(payloads)))]

    def rest(self) -> Iterator[list[RowBatch]]:
        return iter(())


class ToyDelivery:
    """A topic of its own for each task, all stored at the end."""

    def __init__(self, options: WriteOptions, identity: WriteIdentity) -> None:
        self._options = options
        self._identity = identity
        self._client = ToyClient(f"{options.own}-{identity.partition}")
        self._sent = self._bytes = 0

    async def open(self) -> None:
        ca_file = self._options.tls.ca_file
        tls = ClientTls(ca_file=Path(ca_file)) if ca_file else ClientTls(insecure=True)
        address = self._options.endpoint.addresses[0]
        await self._client.dial(address.host, address.port, tls)

    async def send(self, batches: Sequence[RowBatch]) -> None:
        for batch in batches:
            self._client.send(batch.payloads)
            self._sent += len(batch.payloads)
            self._bytes += sum(map(len, batch.payloads))

    async def complete(self) -> SentCounts:
        try:
            await self._client.finish()
        except ConnectionError as error:
            raise SinkFailed("RECEIVER_CLOSED", str(error), "Write again") from error
        await self._client.close()
        return SentCounts(self._identity.partition, 1, self._sent, self._sent, 0, self._bytes)

    async def give_up(self) -> None:
        await self._client.close()


class ToySink(Sink):
    def check_schema(self, schema: StructType, options: WriteOptions) -> None:
        if schema.fieldNames() != ["value"]:
            raise SchemaMismatch("COLUMN_UNKNOWN", "A message is a value", "Select it alone")

    def table_schema(self, options: WriteOptions) -> StructType:
        return StructType().add("value", VarcharType(1_000))

    def splitter(self, options: WriteOptions) -> ToySplitter:
        return ToySplitter()

    def delivery(
        self, options: WriteOptions, identity: WriteIdentity, pool: Pool, token: str | None
    ) -> ToyDelivery:
        return ToyDelivery(options, identity)


class ToyFormat(FormatDescription):
    name = "toy"
    protocol = PROTOCOL
    options = OptionTable(
        "toy",
        ("toy", "tin"),
        (*SOURCE_SPECS, *limit_specs(Limits), *READ_SPECS, *WRITE_SPECS, TOPIC),
        own_write=itemgetter("topic"),
    )
    event_counts = ("messages",)

    def message_schema(self, rows: RowOptions) -> StructType:
        return (
            StructType()
            .add("value", BinaryType())
            .add("topic", StringType())
            .add("number", LongType())
            .add("reading", BooleanType())
            .add("received", TimestampType())
            .add("partition", IntegerType())
            .add("offset", LongType())
        )

    def rows(self) -> ToyMapping:
        return ToyMapping()

    def sink(self) -> ToySink:
        return ToySink()


class ToyDataSource(FormatDataSource):
    description = ToyFormat()
