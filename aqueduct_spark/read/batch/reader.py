"""The object that Spark calls for a bounded read: thin, lazy, picklable.

Spark makes it anew for each action, in a short helper process, and pickles it from there to the
tasks; making it has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from aqueduct_core.primitives.garbage_collection import freeze_once
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.model.partitions import (
    DataPartition,
    DialPartition,
    FollowPartition,
    StatusPartition,
    StoredPartition,
)
from aqueduct_spark.model.read_schemas import Decoding
from aqueduct_spark.options.read import BatchReadOptions
from aqueduct_spark.options.tokens import Token
from aqueduct_spark.plain_errors import plainly, plainly_each
from aqueduct_spark.read import quiet_grpc

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_spark.read.batch.planner import SettledRows


class BatchReader(DataSourceReader):
    """A range of what is stored, or channels until they finish.

    Args:
        snapshot: the rows of the read where they were settled when the frame was loaded, so that
            each action on the frame sees the same ones.
        decode: what payloads become; None: they stay as they are.
    """

    def __init__(
        self,
        description: FormatDescription,
        options: BatchReadOptions,
        token: Token,
        snapshot: SettledRows | None,
        decode: Decoding | None = None,
    ) -> None:
        self._description = description
        self._options = options
        self._decode = decode
        self._token = token
        self._snapshot = snapshot

    def __reduce__(self) -> tuple[Any, ...]:
        # For a task, which knows its own rows: a plan of many pieces stays where it was made.
        known = self._description, self._options, self._token
        return BatchReader, (*known, None, self._decode)

    @plainly
    def partitions(self) -> Sequence[InputPartition]:
        quiet_grpc()
        from aqueduct_spark.read.batch.planner import plan

        return plan(self._options, self._token, self._snapshot, self._description)

    @plainly_each
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if type(partition) is InputPartition:
            return iter(())  # what Spark puts in the place of no task at all
        quiet_grpc()
        rows = self._read(partition)
        if self._decode is not None:
            from aqueduct_spark.read.payloads.decoding import decoded

            rows = decoded(rows, self._decode, self._description.rows())
        freeze_once()  # all that is to be imported is
        return rows

    def _read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        mapping = self._description.rows()
        match partition:
            case DataPartition():
                from aqueduct_spark.read import tasks

                return tasks.rows(partition, self._options.rows, mapping)
            case StoredPartition():
                from aqueduct_spark.read.batch.stored import stored_rows

                return stored_rows(partition, self._options, mapping)
            case StatusPartition():
                from aqueduct_spark.read.batch.status import status_rows

                return status_rows(partition, self._description)
            case FollowPartition():
                from aqueduct_spark.read.batch.follow import followed_rows

                return followed_rows(partition, self._options, mapping)
            case DialPartition():
                from aqueduct_spark.read.batch.dial import dialled_rows

                return dialled_rows(partition, self._options, self._description)
        raise TypeError(f"not a partition of ours: {type(partition).__name__}")
