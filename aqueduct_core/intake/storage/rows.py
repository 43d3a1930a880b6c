"""How messages and events lie in the spool, and what readers make of them."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aqueduct_core.errors import AqueductError
from aqueduct_core.intake.storage.batches import BatchSlice
from aqueduct_core.intake.storage.columns import runs
from aqueduct_core.intake.storage.event_log import EventSchema, LoggedEvent
from aqueduct_core.primitives.ranges import Numbers
from aqueduct_core.spool.arrays import numeric_array

if TYPE_CHECKING:
    from aqueduct_core.spool import Spool

log = logging.getLogger(__name__)

EVENT = "event"
"""The column of events, behind those of messages."""


class RowFormat(ABC):
    """The rows of one protocol. Frozen: any thread may use it.

    What is the same for all messages of a batch belongs into a run-end encoded column, so that
    small messages do not carry it each. No column may be dictionary encoded (`Spool`).

    Args:
        columns: of a stored message; none is called ``event``, and no two have one name.
        events: of the log of events.

    Raises:
        ValueError: columns that could not be told apart when they are read.
    """

    names: ClassVar[Mapping[str, str]] = {"channel": "channel", "producer": "producer"}
    """The columns of `expand` that say the channel and the producer of events, where there are."""

    def __init__(self, columns: Sequence[pa.Field], events: EventSchema) -> None:
        self.events = events
        event = pa.field(EVENT, pa.run_end_encoded(pa.int32(), events.stored))
        names = [*(column.name for column in columns), EVENT]
        if len({*names}) < len(names):
            raise ValueError(f"columns of one name: {names}")
        self.schema = pa.schema([*columns, event])
        """Of everything that the spool stores."""
        self._messages = tuple(columns)
        self._no_event = pa.nulls(1, events.stored)
        self._one_without = runs((1,), self._no_event)

    @abstractmethod
    def columns(self, slices: Sequence[BatchSlice]) -> list[pa.Array]:
        """Those of the messages of ``slices`` in their order, without an object per message. The
        payloads together stay below 2 GiB (the limit of Arrow's ``binary``)."""

    @abstractmethod
    def received(self, batch: pa.RecordBatch, row: int) -> int:
        """When a stored message came: microseconds since 1970."""

    @abstractmethod
    def expand(
        self,
        batch: pa.RecordBatch,
        partition: int,
        first_offset: int,
        include_headers: bool,
        include_metadata: bool,
    ) -> pa.RecordBatch:
        """The rows of stored messages whose first one has ``first_offset``, as users see them,
        ``partition`` and ``offset`` among their columns; payloads are not copied."""

    def listed(self, row: dict[str, Any]) -> dict[str, Any]:
        """Of a row of `expand`, with all that may be included, what ``aqueduct spool cat`` prints
        and under which names: all of it, unless the protocol has a form of its own."""
        return row

    def as_stored(self, schema: pa.Schema | None) -> RowFormat:
        """In which format to go on writing a spool that has this schema (None: a new one). Where it
        is none of this protocol, opening the spool refuses it."""
        return self

    def reads(self, schema: pa.Schema) -> bool:
        """Whether `expand` and `expand_events` know the rows of a spool with this schema."""
        return bool(self.as_stored(schema).schema.equals(schema))

    def to_rows(self, slices: Sequence[BatchSlice]) -> pa.RecordBatch:
        """The messages of ``slices`` as the spool stores them."""
        columns = self.columns(slices)
        columns.append(self.no_events(len(columns[0])))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def no_events(self, rows: int) -> pa.Array:
        """The column ``event`` of rows of messages."""
        return self._one_without if rows == 1 else runs((rows,), self._no_event)

    def to_events(self, events: Sequence[LoggedEvent], log: int) -> pa.RecordBatch:
        """Events in their order, as the spool stores them in log ``log``."""
        count = len(events)
        event = runs(range(1, count + 1), self.events.to_array(events))
        nothing = [_nulls(count, field.type) for field in self._messages]
        return pa.RecordBatch.from_arrays([*nothing, event], schema=self.schema)

    def expand_events(
        self, batch: pa.RecordBatch, partition: int, first_offset: int
    ) -> pa.RecordBatch:
        """The rows of stored events of log ``partition`` whose first one has ``first_offset``.

        Raises:
            ValueError: these are rows of messages.
        """
        column = batch.column(EVENT)
        values = column.values
        if batch.num_rows and values.null_count:
            raise ValueError("rows of messages are no events")
        taken = values.take(run_of_each_row(column))
        fields = {field.name: taken.field(i) for i, field in enumerate(self.events.stored)}
        return self.events.expand(fields, partition, first_offset, batch.num_rows)

    def oldest_timestamp(self, batch: pa.RecordBatch) -> int:
        """Microseconds since 1970 of the first row of a stored batch, which has some."""
        return self._timestamp(batch, 0)

    def newest_timestamp(self, batch: pa.RecordBatch) -> int:
        """The same of its last row; times never go back inside a log."""
        return self._timestamp(batch, batch.num_rows - 1)

    def _timestamp(self, batch: pa.RecordBatch, row: int) -> int:
        column = batch.column(EVENT)
        event = column.values.field("timestamp")[run_of(column, row)]
        return int(event.value) if event.is_valid else self.received(batch, row)


def newest_stored(spool: Spool, rows: RowFormat, log_number: int) -> int:
    """The timestamp of the last row of a log, below which none may follow though a clock was set
    back; 0 where there is none, or it cannot be read."""
    start, end = spool.starts()[log_number], spool.ends()[log_number]
    if start == end:
        return 0
    try:
        last = list(spool.read(log_number, end - 1, end))[-1]
    except (AqueductError, IndexError) as error:
        log.warning("the newest row of partition %d cannot be read: %s", log_number, error)
        return 0
    return rows.newest_timestamp(last)


def payload_array(slices: Sequence[BatchSlice]) -> pa.Array:
    """The payloads as binary values; copied once where there are several slices."""
    if len(slices) == 1:
        _, batch, low, high, *_ = slices[0]
        ends = batch.offsets[low : high + 1]
        begin, end = int(ends[0]), int(ends[-1])
        whole = end - begin == len(batch.payload)
        payload = batch.payload if whole else memoryview(batch.payload)[begin:end]
        return _binary_array((ends - begin).astype(np.int32), payload)
    lengths: list[NDArray[np.int64]] = []
    parts: list[bytes | memoryview] = []
    for _, batch, low, high, *_ in slices:
        ends = batch.offsets
        if high - low < batch.count or ends[-1] < len(batch.payload):
            ends = ends[low : high + 1]
            parts.append(memoryview(batch.payload)[ends[0] : ends[-1]])
        else:
            parts.append(batch.payload)
        lengths.append(ends[1:] - ends[:-1])
    rows = sum(map(len, lengths))
    offsets = np.zeros(rows + 1, np.int32)
    np.cumsum(np.concatenate(lengths), out=offsets[1:])
    return _binary_array(offsets, b"".join(parts))


def _binary_array(offsets: NDArray[np.int32], payload: bytes | memoryview) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(payload)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def number_array(slices: Sequence[BatchSlice]) -> pa.Array:
    """The numbers of the messages, as their rows show them."""
    if len(slices) == 1:
        return numeric_array(_numbers(slices[0]))
    firsts, counts = [], []
    for each in slices:
        if each.numbers is not None:
            return numeric_array(np.concatenate([_numbers(other) for other in slices]))
        firsts.append(each.source.number(each.batch, each.low))
        counts.append(each.high - each.low)
    return numeric_array(_counting(firsts, counts))


def runs_of_source(slices: Sequence[BatchSlice]) -> tuple[list[BatchSlice], list[int]]:
    """Neighbours of one channel and one moment share one entry of a run-end encoded column: the
    first slice of each entry, and the row at which it ends."""
    firsts: list[BatchSlice] = []
    ends: list[int] = []
    rows = 0
    for each in slices:
        rows += each.high - each.low
        last = firsts[-1] if firsts else None
        if (
            last is not None
            and last.source is each.source
            and last.timestamp == each.timestamp
            and last.batch.reliable is each.batch.reliable
        ):
            ends[-1] = rows
        else:
            firsts.append(each)
            ends.append(rows)
    return firsts, ends


def _counting(firsts: list[int], counts: list[int]) -> Numbers:
    """As many numbers from each first one on as is counted beside it."""
    rows = sum(counts)
    numbers = np.arange(rows, dtype=np.int64)
    before = np.cumsum(counts) - counts
    numbers += np.repeat(np.array(firsts, np.int64) - before, counts)
    return numbers


def _numbers(each: BatchSlice) -> Numbers:
    if each.numbers is not None:
        return each.numbers[each.low : each.high]
    first = each.source.number(each.batch, each.low)
    return np.arange(first, first + each.high - each.low, dtype=np.int64)


def run_of(column: pa.RunEndEncodedArray, row: int) -> int:
    """The index of the run of a row; the column may be a slice of a longer array."""
    ends = column.run_ends.to_numpy()
    return int(np.searchsorted(ends, column.offset + row, side="right"))


def run_of_each_row(column: pa.RunEndEncodedArray) -> pa.Array:
    """The same of all rows."""
    ends = column.run_ends.to_numpy()
    rows = np.arange(column.offset, column.offset + len(column))
    return numeric_array(np.searchsorted(ends, rows, side="right"))


def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_run_end_encoded(kind):
        return pa.nulls(count, kind)
    return runs((count,), pa.nulls(1, kind.value_type))
