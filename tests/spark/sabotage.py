"""The sink with faults in its tasks, as format ``sabotaged``; option ``sabotage`` names one:

    fail        attempts 0 and 1 fail when some rows were sent; the third one goes through
    kill-before attempt 0 kills its executor with kill -9 when some rows were sent
    kill-after  attempt 0 does so when all is acked, before Spark hears of it
    slow        attempt 0 hangs when some rows were sent, until speculation ends it

Only the task of partition 0 meets the fault.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from aqueduct_spark.formats.aqueduct.format import AqueductDataSource
from tests.support.waiting import ancestors

BATCHES_BEFORE = 2
"""Record batches that are sent before the fault."""


class SabotagedSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "sabotaged"

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        options = dict(self.options)
        fault = options.pop("sabotage")
        return SabotagedWriter(AqueductDataSource(options).writer(schema, overwrite), fault)


class SabotagedWriter(DataSourceArrowWriter):
    def __init__(self, writer: Any, fault: str) -> None:
        self._writer = writer
        self._fault = fault

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        if context.partitionId() != 0:
            return self._writer.write(iterator)
        attempt = context.attemptNumber()
        done = self._writer.write(self._rows(iterator, attempt))
        if self._fault == "kill-after" and attempt == 0:
            kill_executor()
        return done

    def _rows(self, iterator: Iterator[pa.RecordBatch], attempt: int) -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(iterator):
            if number == BATCHES_BEFORE:
                if self._fault == "fail" and attempt < 2:
                    raise RuntimeError(f"sabotage in attempt {attempt}")
                if self._fault == "kill-before" and attempt == 0:
                    kill_executor()
                if self._fault == "slow" and attempt == 0:
                    threading.Event().wait(120)
            yield batch

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages)


def kill_executor() -> None:
    """The JVM above the daemon that forked this worker."""
    os.kill(ancestors(os.getpid())[1], signal.SIGKILL)
    threading.Event().wait(60)
