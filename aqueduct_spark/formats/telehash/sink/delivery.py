"""The sink of Telehash as the writers and `Delivery` know it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.errors import SinkFailed
from aqueduct_core.intake.telehash.channels import LONGEST_TYPE
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.formats.telehash.options import TelehashWrite
from aqueduct_spark.formats.telehash.sink.attempt import MAX_OPEN_CHANNELS, TelehashAttempt
from aqueduct_spark.formats.telehash.sink.columns import (
    TypeSplitter,
    check_columns,
)
from aqueduct_spark.formats.telehash.sink.line import LineKey, SinkLine, dial_line
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination, RowAccount
from aqueduct_spark.write.delivery import Delivery
from aqueduct_spark.write.ends import AttemptEnds
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.row_columns import table_columns
from aqueduct_spark.write.sink import AttemptConnection, Sink, SinkProtocol, WriteIdentity


class TelehashSink(Sink):
    """Rows as packets on reliable channels."""

    def check_schema(self, schema: StructType, options: WriteOptions) -> None:
        own: TelehashWrite = options.own
        check_columns(schema, options.payload_format, own.type)

    def table_schema(self, options: WriteOptions) -> StructType:
        return table_columns(options.payload_format, "type", LONGEST_TYPE)

    def splitter(self, options: WriteOptions) -> TypeSplitter:
        own: TelehashWrite = options.own
        marked = options.idempotence != "none"
        return TypeSplitter(own.type, options.payload_format, marked=marked)

    def delivery(
        self,
        options: WriteOptions,
        identity: WriteIdentity,
        pool: Pool,
        token: str | None,
        max_open: int = MAX_OPEN_CHANNELS,
    ) -> Delivery:
        protocol = TelehashProtocol(options, identity, pool, max_open)
        return Delivery(options, identity.partition, protocol)


class TelehashProtocol(SinkProtocol):
    """The part of Telehash in one attempt: lines from the pool, or new ones."""

    def __init__(
        self, options: WriteOptions, identity: WriteIdentity, pool: Pool, max_open: int
    ) -> None:
        own: TelehashWrite = options.own
        self._options = options
        self._identity = identity
        self._pool = pool
        self._max_open = max_open
        self._keeps = options.keeps_connections or own.keep_channel

    async def connect(
        self, address: HostPort, accounts: Mapping[Destination, RowAccount], ends: AttemptEnds
    ) -> TelehashAttempt:
        async def dialled() -> SinkLine:
            return await dial_line(address, self._options)

        line = await self._pool.lease(LineKey.of(address, self._options), dialled)
        return TelehashAttempt(line, self._options, self._identity, accounts, ends, self._max_open)

    async def release(self, connection: AttemptConnection) -> None:
        assert isinstance(connection, TelehashAttempt)
        line = connection.line
        if self._keeps and line.alive:
            self._pool.give_back(LineKey.of(line.address, self._options), line)
        else:
            await line.close(self._options.ack_timeout)

    def lost(self, connection: AttemptConnection, lost: ConnectionLost) -> SinkFailed:
        self._pool.discard(LineKey.of(connection.address, self._options))
        return SinkFailed(
            "CONNECTION_LOST",
            f"{self._options.endpoint.url(connection.address)}: {lost.what}",
            "Check the receiver and its log; rows that were not acked are sent again by the next "
            "attempt",
        )
