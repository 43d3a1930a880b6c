"""The sink of QUICR as the writers know it: one post for each URL of a task."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Sequence
from itertools import chain

from pyspark.sql.types import StructType

from aqueduct_core.errors import ConnectFailed, SchemaMismatch
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.quicr.faults import MediaError
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.urls import url_bytes
from aqueduct_spark.formats.quicr.options import LONGEST_URL, QuicrWrite
from aqueduct_spark.formats.quicr.sink.columns import (
    ObjectRows,
    UrlSplitter,
    check_columns,
)
from aqueduct_spark.formats.quicr.sink.connection import PostingConnection
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import RowBatch
from aqueduct_spark.write.dial_wait import DialWait
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.row_columns import table_columns
from aqueduct_spark.write.sink import AttemptDelivery, SentCounts, Sink, WriteIdentity

RETRY_SECONDS = 0.1
"""Between two dials of an endpoint that does not answer; the pauses double up to the longest."""
LONGEST_RETRY_SECONDS = 1.0

POSTS = 256
"""Media of one connection: an origin or a relay takes so many at once, and a media ends with the
task. For more of them there are more connections."""


class QuicrSink(Sink):
    """Rows as objects of media."""

    def check_schema(self, schema: StructType, options: WriteOptions) -> None:
        own: QuicrWrite = options.own
        check_columns(schema, options.payload_format, own.url)

    def table_schema(self, options: WriteOptions) -> StructType:
        return table_columns(options.payload_format, "url", LONGEST_URL)

    def splitter(self, options: WriteOptions) -> UrlSplitter:
        own: QuicrWrite = options.own
        return UrlSplitter(own.url, options.payload_format, options.max_message_bytes)

    def delivery(
        self, options: WriteOptions, identity: WriteIdentity, pool: Pool, token: str | None
    ) -> AttemptDelivery:
        return PostDelivery(options, identity)


class PostDelivery:
    """Posts the rows of one attempt. Rows that have left are kept no longer: what fails is done
    again from its first row by the next attempt, with the same positions.

    A row without columns of its own is an object of the group of the batch, numbered by its place
    among those of its URL in this task; so no other task may have rows of this URL, which the
    commit finds out.
    """

    def __init__(self, options: WriteOptions, identity: WriteIdentity) -> None:
        self._options = options
        self._identity = identity
        self._own: QuicrWrite = options.own
        self._group = identity.batch if identity.rising else self._own.group
        self._connections: list[list[PostingConnection]] = []  # of each address
        self._rows = self._bytes = 0
        self._begun = time.monotonic()

    async def open(self) -> None:
        """Connect to every address; with ``failover`` to the first that answers.

        Raises:
            ConnectFailed, TlsFailed: before any row was sent.
        """
        addresses: Sequence[HostPort] = self._options.endpoint.addresses
        if self._options.endpoint_policy == "failover":
            self._connections.append([await self._connect(addresses)])
            return
        for address in addresses:
            self._connections.append([await self._connect([address])])

    async def send(self, batches: Sequence[RowBatch]) -> None:
        for batch in batches:
            assert isinstance(batch, ObjectRows)
            connection = await self._connection_of(batch.destination.channel)
            self._append(connection, batch)
            await connection.room()

    async def complete(self) -> SentCounts:
        connections = list(chain.from_iterable(self._connections))
        await asyncio.gather(*(each.complete() for each in connections))
        urls = [url for each in connections for url in each.urls]
        used = dict.fromkeys(str(each.address) for each in connections if each.urls)
        return SentCounts(
            partition=self._identity.partition,
            channels=len(urls),
            sent=self._rows,
            acked=self._rows,
            nacked=0,
            bytes=self._bytes,
            seconds=time.monotonic() - self._begun,
            endpoints=tuple(used),
            whole=tuple(urls),
        )

    async def give_up(self) -> None:
        connections = chain.from_iterable(self._connections)
        await asyncio.gather(*(each.give_up() for each in connections))

    # the inside

    async def _connection_of(self, url: str) -> PostingConnection:
        """That on which the media is, or is to be."""
        there = self._connections[zlib.crc32(url.encode()) % len(self._connections)]
        for connection in there:
            if connection.has(url):
                return connection
        if there[-1].posts >= POSTS:
            there.append(await self._connect([there[-1].address]))
        return there[-1]

    def _append(self, connection: PostingConnection, rows: ObjectRows) -> None:
        text = rows.destination.channel
        groups, objects = rows.groups, rows.objects
        begin = Position(
            self._group if groups is None else groups[0], 0 if objects is None else objects[0]
        )
        post = connection.post(text, self._url(text), begin)
        queue, now = post.queue, asyncio.get_running_loop().time()
        try:
            for at, payload in enumerate(rows.payloads):
                if groups is None:
                    position = queue.next
                elif objects is not None:
                    position = Position(groups[at], objects[at])
                elif groups[at] == queue.next.group:
                    position = queue.next
                else:
                    position = Position(groups[at], 0)
                queue.append(position, payload, rows.flags[at], now)
        except MediaError as error:
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Media '{text}': {error}",
                "Have all rows of a URL in one task, sorted by group_id and object_id without "
                "holes: df.repartition('url').sortWithinPartitions('url', 'group_id', 'object_id')",
            ) from None
        self._rows += len(rows.payloads)
        self._bytes += rows.size
        connection.wake(post)

    def _url(self, text: str) -> bytes:
        url = url_bytes(text)
        if self._identity.rising and self._own.url_per_batch:
            return b"%s/%d" % (url, self._identity.batch)
        return url

    async def _connect(self, addresses: Sequence[HostPort]) -> PostingConnection:
        """The first that answers, for ``connectTimeout``."""
        allowed, pause = self._options.connect_timeout, RETRY_SECONDS
        until = asyncio.get_running_loop().time() + allowed
        with DialWait(str(self._options.endpoint)) as wait:
            while True:
                for address in addresses:
                    connection = PostingConnection(
                        address, self._options, datagram=self._own.datagram
                    )
                    try:
                        await connection.dial()
                    except ConnectFailed as failure:
                        wait.failure = failure
                    else:
                        return connection
                if asyncio.get_running_loop().time() >= until:
                    assert wait.failure is not None
                    raise wait.over("connectTimeout") if allowed else wait.failure
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_RETRY_SECONDS)
