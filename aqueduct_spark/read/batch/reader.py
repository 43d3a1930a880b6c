"""The object that Spark calls for a bounded read: thin, lazy, picklable.

Spark makes it anew for each action, in a short helper process, and pickles it from there to the
tasks; making it has no effect.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from aqueduct_spark.model.partitions import DataPartition
from aqueduct_spark.model.read_schemas import Decoding
from aqueduct_spark.options.read import BatchReadOptions
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.read.batch.partitions import (
    DialPartition,
    FollowPartition,
    StatusPartition,
    StoredPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_spark.read.batch.planner import Snapshot


class AqueductBatchReader(DataSourceReader):
    """A range of what is stored, or channels until they finish.

    Args:
        snapshot: the rows of the read where they were settled when the frame was loaded, so that
            each action on the frame sees the same ones.
        decode: what payloads become; None: they stay as they are.
    """

    def __init__(
        self,
        options: BatchReadOptions,
        token: Token,
        snapshot: Snapshot | None,
        decode: Decoding | None = None,
    ) -> None:
        self._options = options
        self._decode = decode
        self._token = token
        self._snapshot = snapshot

    def __reduce__(self) -> tuple[Any, ...]:
        # For a task, which knows its own rows: a plan of many pieces stays where it was made.
        return AqueductBatchReader, (self._options, self._token, None, self._decode)

    def partitions(self) -> Sequence[InputPartition]:
        _quiet_grpc()
        from aqueduct_spark.read.batch.planner import plan

        return plan(self._options, self._token, self._snapshot)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        _quiet_grpc()
        rows = self._read(partition)
        if self._decode is None:
            return rows
        from aqueduct_spark.read.payloads.decoding import decoded

        return decoded(rows, self._decode)

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        match partition:
            case DataPartition():
                from aqueduct_spark.read import tasks

                rows = self._options.rows
                return tasks.rows(
                    partition,
                    include_headers=rows.include_headers,
                    include_metadata=rows.include_metadata,
                    include_spool=rows.include_spool,
                )
            case StoredPartition():
                from aqueduct_spark.read.batch.tasks import stored_rows

                return stored_rows(partition, self._options)
            case StatusPartition():
                from aqueduct_spark.read.batch.status import status_rows

                return status_rows(partition)
            case FollowPartition():
                from aqueduct_spark.read.batch.follow import followed_rows

                return followed_rows(partition, self._options)
            case DialPartition():
                from aqueduct_spark.read.batch.dial import dialled_rows

                return dialled_rows(partition, self._options)
        raise TypeError(f"not a partition of ours: {type(partition).__name__}")


def _quiet_grpc() -> None:
    """gRPC reads it when it is imported; its own lines say nothing that our errors do not."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
