"""QUICR's rows: the columns of a stored object and of an event, and what readers make of them.

Stored: an object's position is one number (`Position.number`); what all objects of a media share
for a while is one run-end encoded column ``media``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.intake.storage.batches import BatchSlice, ChannelSource
from aqueduct_core.intake.storage.columns import array_of, constant, counted, runs
from aqueduct_core.intake.storage.event_log import DEDUPED, STORED, TIMESTAMP, EventSchema
from aqueduct_core.intake.storage.rows import (
    RowFormat,
    number_array,
    payload_array,
    run_of,
    run_of_each_row,
    runs_of_source,
)
from aqueduct_core.primitives.ranges import Range
from aqueduct_core.quicr.media.drop_level import FlagReading, priority_of
from aqueduct_core.quicr.media.fragment import HOLE
from aqueduct_core.quicr.media.position import ID_BITS, MAX_ID
from aqueduct_core.spool.arrays import mask_array, numbers_in, numeric_array

CANCELLED, LOST, CONFLICT = "cancelled", "lost", "conflict"
HOLES = "holes"

EVENTS = EventSchema((CANCELLED, LOST, CONFLICT), {STORED: 0, HOLES: 0, DEDUPED: 0})
"""``reliableStored`` objects became rows, ``holes`` of them stand for one that a hop gave up;
``deduped`` were rows before."""

MEDIA = pa.struct(
    [
        pa.field("url", pa.string()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("connectionId", pa.string()),
    ]
)

COLUMNS = (
    pa.field("value", pa.binary()),
    pa.field("number", pa.int64()),
    pa.field("flags", pa.uint8()),
    pa.field("queueDelay", pa.int64()),
    pa.field("lastOfGroup", pa.bool_()),
    pa.field("media", pa.run_end_encoded(pa.int32(), MEDIA)),
)

ROW_SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("url", pa.string()),
        ("group_id", pa.int64()),
        ("object_id", pa.int64()),
        ("flags", pa.int16()),
        ("is_hole", pa.bool_()),
        ("droppable", pa.bool_()),
        ("drop_priority", pa.int16()),
        ("queue_delay_ms", pa.int64()),
        ("is_last_of_group", pa.bool_()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
    ]
)
"""Of the rows of messages: exactly what Spark makes of the read schema."""

NOBODY = ""
"""The producer of every media: an object is known by its URL and its position, whoever sends it."""


@dataclass(frozen=True, slots=True)
class UrlSource(ChannelSource):
    """One media as it comes on one transaction, its URL the channel. ``covered``: positions, as
    numbers, of which each is stored by now, or was told of as one that will not come."""

    covered: Range = (0, 0)

    @property
    def done(self) -> Range:
        return self.covered


@dataclass(frozen=True, slots=True)
class ObjectBatch(MessageBatch):
    """Objects of one media. Holes have empty payloads, and are the ``absent`` ones.

    ``delays`` are milliseconds, None of a media that came on a stream. ``last`` of each object:
    whether its group ends with it, None where that is not known yet.
    """

    flags: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False)
    delays: NDArray[np.int64] | None = field(default=None, repr=False)
    last: Sequence[bool | None] = field(default=(), repr=False)


class QuicrRowFormat(RowFormat):
    """``reading``: what ``droppable`` and ``drop_priority`` make of the flags (Q35, Q37). What is
    stored is the same."""

    names: ClassVar[Mapping[str, str]] = {"channel": "url"}

    def __init__(self, reading: FlagReading) -> None:
        super().__init__(COLUMNS, EVENTS)
        told = [priority_of(flags, reading) is not None for flags in range(HOLE)]
        self._droppable = array_of([*told, None], pa.bool_())
        shift = 1 if reading == "low" else 0
        priorities = array_of([*(flags >> shift for flags in range(HOLE)), None], pa.int64())
        self._priority = priorities.cast(pa.int16())

    def columns(self, slices: Sequence[BatchSlice]) -> list[pa.Array]:
        parts = [(_batch_of(each), each.low, each.high) for each in slices]
        flags = np.concatenate([batch.flags[low:high] for batch, low, high in parts])
        firsts, ends = runs_of_source(slices)
        last = [known for batch, low, high in parts for known in batch.last[low:high]]
        shared = pa.StructArray.from_arrays(
            [
                array_of([each.source.channel for each in firsts], pa.string()),
                array_of([each.timestamp for each in firsts], TIMESTAMP),
                array_of([each.source.connection for each in firsts], pa.string()),
            ],
            fields=list(MEDIA),
        )
        return [
            _without_holes(payload_array(slices), flags),
            number_array(slices),
            numeric_array(flags),
            _delays(parts),
            array_of(last, pa.bool_()),
            runs(ends, shared),
        ]

    def received(self, batch: pa.RecordBatch, row: int) -> int:
        media = batch.column("media")
        return int(media.values.field("timestamp")[run_of(media, row)].value or 0)

    def expand(
        self,
        batch: pa.RecordBatch,
        partition: int,
        first_offset: int,
        include_headers: bool,
        include_metadata: bool,
    ) -> pa.RecordBatch:
        count, media = batch.num_rows, batch.column("media")
        shared, positions = media.values.flatten(), run_of_each_row(media)
        numbers, flags = numbers_in(batch.column("number")), numbers_in(batch.column("flags"))
        of_flags = numeric_array(flags)
        columns = {
            "value": batch.column("value"),
            "url": shared[0].take(positions),
            "group_id": numeric_array(numbers >> ID_BITS),
            "object_id": numeric_array(numbers & MAX_ID),
            "flags": numeric_array(flags.astype(np.int16)),
            "is_hole": mask_array(flags == HOLE),
            "droppable": self._droppable.take(of_flags),
            "drop_priority": self._priority.take(of_flags),
            "queue_delay_ms": batch.column("queueDelay"),
            "is_last_of_group": batch.column("lastOfGroup"),
            "partition": constant(partition, count),
            "offset": counted(first_offset, count),
            "timestamp": shared[1].take(positions),
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA
        )


def _batch_of(each: BatchSlice) -> ObjectBatch:
    assert isinstance(each.batch, ObjectBatch)
    return each.batch


def _without_holes(payloads: pa.Array, flags: NDArray[np.uint8]) -> pa.Array:
    """The same with nulls in place of holes."""
    there = flags != HOLE
    if there.all():
        return payloads
    valid = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(
        payloads.type, len(payloads), [valid, *payloads.buffers()[1:]], int((~there).sum())
    )


def _delays(parts: Sequence[tuple[ObjectBatch, int, int]]) -> pa.Array:
    if all(batch.delays is None for batch, _, _ in parts):
        return pa.nulls(sum(high - low for _, low, high in parts), pa.int64())
    values: list[int | None] = []
    for batch, low, high in parts:
        delays = batch.delays
        values += [None] * (high - low) if delays is None else delays[low:high].tolist()
    return array_of(values, pa.int64())


READINGS: dict[FlagReading, QuicrRowFormat] = {
    reading: QuicrRowFormat(reading) for reading in get_args(FlagReading)
}
ROWS = READINGS["low"]
"""As the document reads flags."""
