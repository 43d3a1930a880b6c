"""What a task of a bounded read does that reads a spool directory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct_core.errors import DataLoss
from aqueduct_core.flight.joining import joined
from aqueduct_spark.read.batch_spools import opened
from aqueduct_spark.read.shaping import Shape

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_core.spool.reader import SpoolReader
    from aqueduct_spark.model.read_options import BatchReadOptions
    from aqueduct_spark.read.batch_partitions import StoredPartition

log = logging.getLogger(__name__)


def stored_rows(partition: StoredPartition, options: BatchReadOptions) -> Iterator[pa.RecordBatch]:
    """Exactly the rows of the range, in order, from the segment files.

    Raises:
        DataLoss: RANGE_GONE or SPOOL_REPLACED, unless failOnDataLoss is off.
        SpoolFailed: CORRUPT with the offset; IO.
    """
    shape = Shape(
        options.rows.view,
        options.rows.selection,
        include_headers=options.rows.include_headers,
        include_metadata=options.rows.include_metadata,
        include_spool=options.rows.include_spool,
    )
    wanted = partition.rows
    following = wanted.first
    while following < wanted.stop:
        try:
            with opened(Path(wanted.at), wanted.spool) as reader:
                first, stop = following, wanted.stop
                if not options.fail_on_data_loss:
                    first, stop = stretch(reader, wanted.partition, following, stop)
                if first > following:
                    _tell(f"offsets {following} to {first} (exclusive) of {wanted} are gone")
                    following = first
                for batch in joined(reader.read(wanted.partition, following, stop)):
                    yield from shape.rows(batch, wanted.partition, following, wanted.spool)
                    following += batch.num_rows
        except DataLoss as error:
            if options.fail_on_data_loss:
                raise
            _tell(str(error))
            if error.subclass != "RANGE_GONE":
                return


def stretch(reader: SpoolReader, partition: int, start: int, stop: int) -> tuple[int, int]:
    """The first rows of ``[start, stop)`` stored without a hole; ``(stop, stop)``: none."""
    first = end = stop
    for segment in reader.segments:
        low, high = segment.starts[partition], segment.ends[partition]
        if high <= max(low, start) or low >= stop:
            continue
        if first == stop:
            first, end = max(start, low), min(high, stop)
        elif low == end:
            end = min(high, stop)
        else:
            break
    return first, end


def _tell(what: str) -> None:
    log.warning("failOnDataLoss=false: %s", what)
