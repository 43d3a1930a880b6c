"""The object that Spark calls for each micro-batch of a streaming write: thin and picklable."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from aqueduct_spark.options.tokens import Token
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batch_writer import counts_of
from aqueduct_spark.write.counts import summary

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties of the tasks of a query; its id is the same after a restart."""


class AqueductStreamWriter(DataSourceStreamArrowWriter):
    """The rows of micro-batches to an endpoint, as `AqueductBatchWriter` sends those of a batch.

    The writer is the query, the batch its micro-batch: a batch that is done again after a crash
    of the driver sends the same rows under the same numbers.
    """

    def __init__(self, options: WriteOptions, token: Token) -> None:
        self._options = options
        self._token = token

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from aqueduct_spark.write.identity import WriteIdentity
        from aqueduct_spark.write.task import write_rows

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a streaming write runs in a task of Spark")
        query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
        if query is None or batch is None:
            raise RuntimeError("Spark did not tell the task its query and batch")
        return write_rows(
            iterator,
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

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        counts = counts_of(messages)
        if any(task.sent for task in counts):
            log.warning("batch %d, %s", batchId, summary(self._name, counts))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        log.warning("batch %d aborted, %s", batchId, summary(self._name, counts_of(messages)))

    @property
    def _name(self) -> str:
        return self._options.writer_id or "of the query"
