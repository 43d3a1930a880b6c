"""From stored batches to the batches that a task hands to Spark, in both views.

Holds at most one stored batch and what is joined: memory does not grow with the rows of a task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from aqueduct_core.intake.storage.event_rows import expand_events
from aqueduct_core.intake.storage.schema import expand
from aqueduct_spark.options.selection import Selection
from aqueduct_spark.read.filters import Sieve

MAX_BATCH_BYTES = 1 << 20
"""A batch for Spark has about that many bytes at most, unless one row alone has more."""

SPOOL = pa.field("spool", pa.string())

Expand = Callable[[pa.RecordBatch, int, int], pa.RecordBatch]


class Shape:
    """What the rows of one read look like: the view, its columns, and which rows are wanted."""

    def __init__(
        self,
        view: str,
        selection: Selection,
        *,
        include_headers: bool = False,
        include_metadata: bool = False,
        include_spool: bool = False,
    ) -> None:
        self._include_spool = include_spool
        self._sieve = Sieve(selection)
        self._expand = _expansion(view, include_headers, include_metadata)

    def rows(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, spool: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """The wanted rows of a stored batch of ``spool`` whose first row has ``first_offset``."""
        mask = self._sieve.mask(batch)
        if mask is None:
            for piece, first in bounded(batch, first_offset):
                yield self._named(self._expand(piece, partition, first), spool)
        elif mask.any():
            wanted = self._expand(batch, partition, first_offset).filter(pa.array(mask))
            yield from (self._named(piece, spool) for piece, _ in bounded(wanted, 0))

    def _named(self, rows: pa.RecordBatch, spool: str) -> pa.RecordBatch:
        if not self._include_spool:
            return rows
        return rows.append_column(SPOOL, pa.repeat(pa.scalar(spool, SPOOL.type), rows.num_rows))


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


def _expansion(view: str, include_headers: bool, include_metadata: bool) -> Expand:
    def messages(batch: pa.RecordBatch, partition: int, first: int) -> pa.RecordBatch:
        return expand(batch, partition, first, include_headers, include_metadata)

    def events(batch: pa.RecordBatch, partition: int, first: int) -> pa.RecordBatch:
        return expand_events(batch, first)

    if view == "messages":
        return messages
    if view == "events":
        return events
    raise ValueError(f"no rows in view {view!r}")
