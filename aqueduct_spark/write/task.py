"""What a writing task does with its rows: one code for batches and streams."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.sink import SentCounts, Sink, WriteIdentity
from aqueduct_spark.write.worker import Worker, this_worker


def write_rows(
    batches: Iterator[pa.RecordBatch],
    sink: Sink,
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
    splitter = sink.splitter(options)
    worker = worker or this_worker()
    loop = worker.loop
    delivery = sink.delivery(options, identity, worker.pool, token)
    try:
        loop.run(delivery.open())
        while batch is not None:
            for messages in splitter.split(batch):
                loop.run(delivery.send(messages))
            batch = next(filled, None)
        for messages in splitter.rest():
            loop.run(delivery.send(messages))
        return loop.run(delivery.complete())
    except BaseException:
        loop.run(delivery.give_up())
        raise
