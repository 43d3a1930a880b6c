"""The object that Spark calls for a streaming read: thin, lazy, picklable.

Spark makes it in several processes and pickles it in one of them, so making it has no effect.
What lives, lives in the planner, made by the first call that only the planning process gets.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from aqueduct_core.errors import AqueductError, InvalidOption
from aqueduct_core.logs.lines import LineFormatter
from aqueduct_core.primitives.garbage_collection import freeze_once
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.model.partitions import DataPartition, LaunchPartition
from aqueduct_spark.model.read_schemas import Decoding
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.plain_errors import plainly, plainly_each
from aqueduct_spark.read import quiet_grpc

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_spark.read.stream.planner import StreamPlanner


GRACE = 2.0
"""Seconds for an orderly end of the planning process; nothing rests on it."""


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A format as a stream: offsets are positions in the spools of the query's intakes."""

    def __init__(
        self,
        description: FormatDescription,
        options: StreamReadOptions,
        decode: Decoding | None = None,
    ) -> None:
        self._description = description
        self._options = options
        self._decode = decode
        self._planner: StreamPlanner | None = None

    def initialOffset(self) -> dict[str, Any]:
        return StreamOffset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """The limit on bytes, which always is one. Those of the options count in planning."""
        return ReadMaxBytes(self._options.admission.max_bytes or sys.maxsize)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        self._living_planner().available_now()

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begin = self._offset(start)
        if isinstance(limit, ReadAllAvailable):
            raise InvalidOption(
                "NOT_FOR_QUERY_TYPE",
                "This query has one batch, as with trigger(once=True): it would launch intakes and "
                "end without a row, each time that it is started",
                "Use trigger(availableNow=True), without sources beside this one that do not "
                "support it",
            )
        end = self._living_planner().latest(begin)
        # Spark compares the text: what is equal goes back as it came.
        return start if end == begin else end.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        reach = self._planner.reach() if self._planner else None
        if self._planner is None or reach is None:
            return None
        # for people: Spark shows it in the progress of the query, and reads none of it
        waits = self._planner.waits_for()
        return reach.to_json() | ({"waits": waits} if waits else {})

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return self._living_planner().partitions(self._offset(start), self._offset(end))

    @plainly_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        quiet_grpc()
        from aqueduct_spark.read import tasks

        match partition:
            case LaunchPartition():
                return tasks.launch(partition)
            case DataPartition():
                mapping = self._description.rows()
                rows = tasks.rows(partition, self._options.rows, mapping)
                if self._decode is not None:
                    from aqueduct_spark.read.payloads.decoding import decoded

                    rows = decoded(rows, self._decode, mapping)
                freeze_once()  # all that is to be imported is
                return rows
        raise TypeError(f"not a partition of ours: {type(partition).__name__}")

    @plainly
    def commit(self, end: dict[str, Any]) -> None:
        self._living_planner().commit(self._offset(end))

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.stop()
            self._planner = None
        if isinstance(sys.exception(), EOFError | SystemExit):
            # Spark has hung up, or told the process to end. Its runner would tell of that on a
            # socket that nobody reads, and leave the three tracebacks of it in the driver's log.
            logging.shutdown()
            os._exit(0)

    def _offset(self, raw: dict[str, Any]) -> StreamOffset:
        return StreamOffset.from_json(raw, self._description.name)

    def _living_planner(self) -> StreamPlanner:
        if self._planner is None:
            quiet_grpc()
            # Not to be looked through in the midst of the imports, while the query waits to start.
            gc.freeze()
            from aqueduct_spark.read.stream.planner import StreamPlanner

            _end_on_sigterm()
            _log_to_driver()
            self._planner = StreamPlanner(self._description, self._options)
        return self._planner


class RefusedReader(DataSourceStreamReader):
    """In place of a reader that cannot be made: the first thing that Spark asks of it is refused.

    What is raised while a reader is made does not reach the user: Spark's runner stumbles over the
    reader that it has not got, and tells of that.
    """

    def __init__(self, error: AqueductError) -> None:
        self._error = error

    @plainly
    def initialOffset(self) -> dict[str, Any]:
        raise self._error

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        raise self._error

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise self._error

    @plainly
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error


def _log_to_driver() -> None:
    """Standard error of the planning process is that of the driver."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(handlers=[handler])
    logging.getLogger("aqueduct_spark").setLevel(logging.INFO)


def _end_on_sigterm() -> None:
    """Spark ends the planning process with SIGTERM, which by default skips ``stop``.

    The exception may come in the middle of anything, so the process ends after `GRACE` seconds
    also where it meets a lock that nobody gives back.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        last = threading.Timer(GRACE, os._exit, (0,))
        last.daemon = True
        last.start()
        sys.exit(0)

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, end)
