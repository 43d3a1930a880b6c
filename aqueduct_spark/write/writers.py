"""The objects that Spark calls for a write: thin and picklable."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from aqueduct_core.primitives.garbage_collection import freeze_once
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.plain_errors import plainly
from aqueduct_spark.write.sink import SentCounts, Sink, WriteIdentity, check_whole, summary

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties of the tasks of a query; its id is the same after a restart."""


class BatchWriter(DataSourceArrowWriter):
    """Rows to an endpoint; a task succeeds when every reliable message was acked.

    A failed attempt cancels its channels. Without a ``writerId`` the job gets a fresh one, so
    what is idempotent are its tasks; with one, the job too.
    """

    def __init__(self, sink: Sink, options: WriteOptions, token: Token) -> None:
        self._sink = sink
        self._options = options
        self._token = token
        self._writer = options.writer_id or f"spark-{secrets.token_hex(6)}"

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from aqueduct_spark.write.task import write_rows

        freeze_once()  # all that is to be imported is
        context = TaskContext.get()
        return write_rows(
            iterator,
            self._sink,
            self._options,
            token=self._token.value(),
            identity=WriteIdentity(
                self._writer,
                self._options.batch_id or 0,
                context.partitionId() if context else 0,
                self._options.idempotence != "none",
            ),
            again=context is not None and context.attemptNumber() > 0,
        )

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        counts = _counts(messages)
        log.warning("%s", summary(self._writer, counts))
        check_whole(counts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("aborted, %s", summary(self._writer, _counts(messages)))


class StreamWriter(DataSourceStreamArrowWriter):
    """The rows of micro-batches to an endpoint, as `BatchWriter` sends those of a batch.

    The writer is the query, the batch its micro-batch: a batch that is done again after a crash
    of the driver sends the same rows under the same numbers.
    """

    def __init__(self, sink: Sink, options: WriteOptions, token: Token) -> None:
        self._sink = sink
        self._options = options
        self._token = token

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from aqueduct_spark.write.task import write_rows

        freeze_once()  # all that is to be imported is
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a streaming write runs in a task of Spark")
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise RuntimeError("Spark did not tell the task its query and batch")
        return write_rows(
            iterator,
            self._sink,
            self._options,
            token=self._token.value(),
            identity=WriteIdentity(
                self._options.writer_id or query,
                int(batch),
                context.partitionId(),
                self._options.idempotence != "none",
                rising=True,
            ),
            again=context.attemptNumber() > 0,
        )

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        counts = _counts(messages)
        if any(task.sent for task in counts):
            log.warning("batch %d, %s", batchId, summary(self._name, counts))
        check_whole(counts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.warning("batch %d aborted, %s", batchId, summary(self._name, _counts(messages)))

    @property
    def _name(self) -> str:
        return self._options.writer_id or "of the query"


def _counts(messages: list[WriterCommitMessage | None]) -> list[SentCounts]:
    return [message for message in messages if isinstance(message, SentCounts)]
