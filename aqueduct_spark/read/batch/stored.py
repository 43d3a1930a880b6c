"""What a task of a bounded read does that reads a spool directory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from aqueduct_core.errors import DataLoss
from aqueduct_core.spool.locations import coalesced
from aqueduct_spark.read.batch.spools import opened
from aqueduct_spark.read.gaps import OffsetBatches, passing
from aqueduct_spark.read.shaping import RowShaper

if TYPE_CHECKING:
    import pyarrow as pa

    from aqueduct_core.spool.reader import SpoolReader
    from aqueduct_spark.formats.description import RowMapping
    from aqueduct_spark.model.offsets import DataRange
    from aqueduct_spark.model.partitions import StoredPartition
    from aqueduct_spark.options.read import BatchReadOptions

log = logging.getLogger(__name__)


def stored_rows(
    partition: StoredPartition, options: BatchReadOptions, mapping: RowMapping
) -> Iterator[pa.RecordBatch]:
    """Exactly the rows of the range, in order, from the segment files.

    Raises:
        DataLoss: RANGE_GONE unless failOnDataLoss is off; SPOOL_REPLACED.
        SpoolFailed: CORRUPT with the offset; IO.
    """
    shaper = RowShaper(mapping, options.rows)
    wanted = partition.rows
    following = wanted.first
    lenient = not options.fail_on_data_loss
    while following < wanted.stop:
        try:
            with opened(Path(wanted.at), wanted.spool) as reader:
                for first, batch in _rows(reader, wanted, following, lenient, shaper):
                    yield from shaper.rows(batch, wanted.partition, first, wanted.spool)
                    following = first + batch.num_rows
            return
        except DataLoss as error:
            # truncated since it was opened: the next look knows what is left
            if error.subclass != "RANGE_GONE" or not lenient:
                raise
            log.info("%s: looked at again: %s", wanted, error)


def _rows(
    reader: SpoolReader, wanted: DataRange, start: int, lenient: bool, shaper: RowShaper
) -> OffsetBatches:
    log_number = wanted.partition
    return passing(
        str(wanted),
        start,
        wanted.stop,
        read=lambda first, stop: coalesced(reader.read(log_number, first, stop), shaper.leave_out),
        stretches=lambda first, stop: reader.stretches(log_number, first, stop),
        durable=lambda: reader.ends()[log_number],
        lenient=lenient,
    )
