"""The sink of Aqueduct as the writers and `Delivery` know it."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aqueduct.conventions.headers import CODE_NOT_REPEATABLE
from aqueduct_core.aqueduct.conventions.refusals import over_limit
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_spark.formats.aqueduct.options import AqueductWrite
from aqueduct_spark.formats.aqueduct.sink.attempt_connection import (
    MAX_OPEN_CHANNELS,
    AqueductAttempt,
)
from aqueduct_spark.formats.aqueduct.sink.confirming import SentRows, not_repeatable, other_row
from aqueduct_spark.formats.aqueduct.sink.connection import (
    AqueductConnection,
    ConnectionKey,
    dial,
)
from aqueduct_spark.formats.aqueduct.sink.identity import RowIdentity
from aqueduct_spark.formats.aqueduct.sink.splitting import RowPlan, Splitter
from aqueduct_spark.formats.aqueduct.sink.write_columns import (
    check_write_schema,
    write_table_schema,
)
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import Destination, RowAccount, RowBatch
from aqueduct_spark.write.delivery import Delivery
from aqueduct_spark.write.ends import AttemptEnds
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.sink import AttemptConnection, Sink, SinkProtocol, WriteIdentity


class AqueductSink(Sink):
    """Rows to channels of remote endpoints."""

    def check_schema(self, schema: StructType, options: WriteOptions) -> None:
        check_write_schema(schema, options.payload_format, by_source=options.by_source)

    def table_schema(self, options: WriteOptions) -> StructType:
        return write_table_schema(options.payload_format, by_source=options.by_source)

    def splitter(self, options: WriteOptions) -> Splitter:
        own: AqueductWrite = options.own
        return Splitter(
            RowPlan(
                own.channel,
                own.reliability,
                options.payload_format,
                options.max_message_bytes,
                options.by_source,
            )
        )

    def delivery(
        self,
        options: WriteOptions,
        identity: WriteIdentity,
        pool: Pool,
        token: str | None,
        max_open: int = MAX_OPEN_CHANNELS,
    ) -> Delivery:
        protocol = AqueductProtocol(options, RowIdentity.of(identity), pool, token, max_open)
        return Delivery(options, identity.partition, protocol)


class AqueductProtocol(SinkProtocol):
    """The part of Aqueduct in one attempt: connections from the pool, and the comparison of what
    receivers have stored."""

    def __init__(
        self,
        options: WriteOptions,
        identity: RowIdentity,
        pool: Pool,
        token: str | None,
        max_open: int,
    ) -> None:
        self._options = options
        self._identity = identity
        self._pool = pool
        self._token = token
        self._max_open = max_open
        self._sent = SentRows(identity, options)

    async def connect(
        self, address: HostPort, accounts: Mapping[Destination, RowAccount], ends: AttemptEnds
    ) -> AqueductAttempt:
        options, identity, token = self._options, self._identity, self._token

        async def dialled() -> AqueductConnection:
            return await dial(address, options, token=token, writer=identity.writer)

        pooled = await self._pool.lease(self._key(address), dialled)
        self._sent.meets(pooled)
        return AqueductAttempt(
            pooled, options, identity, self._sent, accounts, ends, self._max_open
        )

    async def release(self, connection: AttemptConnection) -> None:
        assert isinstance(connection, AqueductAttempt)
        pooled = connection.pooled
        if self._options.keeps_connections and pooled.alive:
            self._pool.give_back(self._key(pooled.address), pooled)
        else:
            await pooled.close(self._options.ack_timeout)

    def lost(self, connection: AttemptConnection, lost: ConnectionLost) -> SinkFailed:
        self._sent.loses(connection.address)
        self._pool.discard(self._key(connection.address))
        where = self._options.endpoint.url(connection.address)
        refused = lost.by_peer and lost.origin is CloseOrigin.APPLICATION
        if refused and lost.code == CODE_NOT_REPEATABLE:
            what = f"{where} refused it: {lost.reason}"
            if self._options.by_source:
                return other_row(what)
            return not_repeatable(self._identity, what)
        return over_limit(where, lost) or SinkFailed(
            "CONNECTION_LOST",
            f"{where}: {lost.what}",
            "Check the receiver and its log; rows that were not acked are sent again by the next "
            "attempt",
        )

    def take(self, batch: RowBatch, first: int) -> None:
        self._sent.add(batch, first)

    @property
    def unconfirmed(self) -> list[HostPort]:
        return self._sent.unasked

    def pass_over(self, address: HostPort) -> None:
        self._sent.passes(address)

    @property
    def repeated(self) -> int:
        return self._sent.repeated

    @property
    def unchecked(self) -> int:
        return self._sent.unchecked

    def _key(self, address: HostPort) -> ConnectionKey:
        writer = self._identity.writer
        return ConnectionKey.of(address, self._options, token=self._token, writer=writer)
