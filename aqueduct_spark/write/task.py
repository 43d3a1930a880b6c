"""What a writing task does with its rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from aqueduct_spark.model.write_options import WriteOptions
from aqueduct_spark.write.background import BackgroundLoop
from aqueduct_spark.write.counts import SentCounts
from aqueduct_spark.write.delivery import Delivery
from aqueduct_spark.write.rows import portions


def write_rows(
    batches: Iterator[pa.RecordBatch],
    options: WriteOptions,
    *,
    token: str | None,
    writer: str,
    partition: int,
) -> SentCounts:
    """Send all rows of one task and return when all is acked.

    A task without rows dials nobody.

    Raises:
        ConnectFailed, TlsFailed, AuthFailed: the endpoint cannot be used.
        SinkFailed: rows could not be delivered. SchemaMismatch: a row cannot be a message.
    """
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return SentCounts(partition, 0, 0, 0, 0, 0)
    with BackgroundLoop() as loop:
        delivery = loop.run(Delivery.open(options, token=token, producer=f"{writer}/{partition}"))
        try:
            batch: pa.RecordBatch | None = first
            while batch is not None:
                for portion in portions(
                    batch,
                    channel=options.channel,
                    reliability=options.reliability,
                    max_message_bytes=options.max_message_bytes,
                ):
                    loop.run(delivery.send(portion))
                batch = next(filled, None)
            return loop.run(delivery.complete(partition))
        except BaseException:
            loop.run(delivery.give_up())
            raise
