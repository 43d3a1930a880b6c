"""The object that Spark calls for a batch write: thin and picklable."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from aqueduct_spark.options.tokens import Token
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.counts import SentCounts, summary

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)


class AqueductBatchWriter(DataSourceArrowWriter):
    """Rows to an endpoint; a task succeeds when every reliable message was acked.

    A failed attempt cancels its channels. Without a ``writerId`` the job gets a fresh one, so
    what is idempotent are its tasks; with one, the job too.
    """

    def __init__(self, options: WriteOptions, token: Token) -> None:
        self._options = options
        self._token = token
        self._writer = options.writer_id or f"spark-{secrets.token_hex(6)}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from pyspark import TaskContext

        from aqueduct_spark.write.identity import WriteIdentity
        from aqueduct_spark.write.task import write_rows

        context = TaskContext.get()
        return write_rows(
            iterator,
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

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("%s", summary(self._writer, counts_of(messages)))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        log.warning("aborted, %s", summary(self._writer, counts_of(messages)))


def counts_of(messages: list[WriterCommitMessage | None]) -> list[SentCounts]:
    return [message for message in messages if isinstance(message, SentCounts)]
