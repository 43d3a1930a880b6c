"""From stored batches to the batches that a task hands to Spark, in both views.

Holds at most one stored batch and what is joined: memory does not grow with the rows of a task.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from aqueduct_core.flight.tickets import VIEWS
from aqueduct_core.intake.storage.rows import EVENT
from aqueduct_core.spool.arrays import mask_array, text_scalar
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.read.filters import RowFilter

MAX_BATCH_BYTES = 1 << 20
"""A batch for Spark has about that many bytes at most, unless one row alone has more."""

SPOOL = pa.field("spool", pa.string())


class RowShaper:
    """Makes the rows of one read: those that are wanted, with the columns of its view."""

    def __init__(self, mapping: RowMapping, rows: RowOptions) -> None:
        if rows.view not in VIEWS:
            raise ValueError(f"no rows in view {rows.view!r}")
        self._mapping = mapping
        self._options = rows
        self._filter = RowFilter(mapping, rows.selection)
        self.leave_out = (EVENT,) if rows.view == "messages" else ()
        """Stored columns that this view does not look at."""
        self._include_spool = rows.include_spool and rows.view == "messages"

    def rows(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, spool: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a stored batch of ``spool`` whose first row has ``first_offset``."""
        mask = self._filter.mask(batch)
        if mask is None:
            for piece, first in bounded(batch, first_offset):
                yield self._with_spool(self._expand(piece, partition, first), spool)
        elif mask.any():
            wanted = self._expand(batch, partition, first_offset).filter(mask_array(mask))
            yield from (self._with_spool(piece, spool) for piece, _ in bounded(wanted, 0))

    def _expand(self, batch: pa.RecordBatch, partition: int, first: int) -> pa.RecordBatch:
        if self._options.view == "events":
            return self._mapping.events(batch, partition, first)
        return self._mapping.messages(batch, partition, first, self._options)

    def _with_spool(self, rows: pa.RecordBatch, spool: str) -> pa.RecordBatch:
        if not self._include_spool:
            return rows
        return rows.append_column(SPOOL, pa.repeat(text_scalar(spool), rows.num_rows))


def bounded(
    batch: pa.RecordBatch, first_offset: int, most: int = MAX_BATCH_BYTES
) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Slices of about ``most`` bytes with the offset of their first row; nothing is copied."""
    if batch.num_rows <= 1 or batch.nbytes <= 2 * most:
        yield batch, first_offset
        return
    cuts = _cuts(batch, most)
    for start, stop in pairwise(cuts):
        yield batch.slice(start, stop - start), first_offset + start


def _cuts(batch: pa.RecordBatch, most: int) -> list[int]:
    """Row numbers from 0 to the end; between two of them are about ``most`` bytes.

    Payloads are weighed one by one, everything else as equal shares of the rows.
    """
    count = batch.num_rows
    weights: np.ndarray[Any, np.dtype[np.float64]] = np.zeros(count)
    index = batch.schema.get_field_index("value")
    payload = 0
    if index >= 0 and pa.types.is_binary(batch.schema.field(index).type):
        column = batch.column(index)
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset :][: count + 1]
        weights += np.diff(offsets)
        payload = int(offsets[-1]) - int(offsets[0])
    weights += max(0, batch.nbytes - payload) / count
    ends = np.cumsum(weights)
    cuts = [0]
    while cuts[-1] < count:
        begun = 0.0 if cuts[-1] == 0 else float(ends[cuts[-1] - 1])
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, begun + most, side="right"))))
    cuts[-1] = count
    return cuts
