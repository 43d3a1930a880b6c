"""What a writing task does with its rows: one code for batches and streams."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.counts import SentCounts
from aqueduct_spark.write.delivery import Delivery
from aqueduct_spark.write.identity import WriteIdentity
from aqueduct_spark.write.pool import Worker, this_worker
from aqueduct_spark.write.rows import RowPlan, Splitter


def write_rows(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    *,
    token: str | None,
    identity: WriteIdentity,
    again: bool = False,
    worker: Worker | None = None,
) -> SentCounts:
    """Send all rows of one task attempt and return when all is acked.

    A task without rows dials nobody, unless an attempt of it has failed before (``again``), which
    may have had some: then it asks, where rows are numbered. When it raises, the channels of the
    attempt are cancelled.

    Raises:
        ConnectFailed, TlsFailed, AuthFailed, VersionMismatch: the endpoint cannot be used.
        SinkFailed: rows could not be delivered. SchemaMismatch: a row cannot be a message.
    """
    filled = (batch for batch in batches if batch.num_rows)
    batch = next(filled, None)
    if batch is None and not (again and identity.numbered and not options.by_source):
        return SentCounts.none(identity.partition)
    splitter = Splitter(
        RowPlan(
            options.channel,
            options.reliability,
            options.payload_format,
            options.max_message_bytes,
            options.by_source,
        )
    )
    worker = worker or this_worker()
    loop = worker.loop
    delivery = Delivery(options, identity, worker.pool, token)
    try:
        loop.run(delivery.open())
        while batch is not None:
            for portions in splitter.split(batch):
                loop.run(delivery.send(portions))
            batch = next(filled, None)
        for portions in splitter.rest():
            loop.run(delivery.send(portions))
        return loop.run(delivery.complete())
    except BaseException:
        loop.run(delivery.give_up())
        raise
