"""Telehash's rows: the columns of a stored packet and of an event, and what readers make of them.

Stored: what differs from packet to packet is a plain column; what all packets of a channel share
for a while is one run-end encoded column ``channel``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from aqueduct_core.intake.storage.batches import BatchSlice, ChannelSource
from aqueduct_core.intake.storage.columns import array_of, constant, counted, runs
from aqueduct_core.intake.storage.event_log import DEDUPED, STORED, TIMESTAMP, EventSchema
from aqueduct_core.intake.storage.rows import (
    RowFormat,
    payload_array,
    run_of,
    run_of_each_row,
    runs_of_source,
)
from aqueduct_core.spool import SPARSE
from aqueduct_core.spool.arrays import mask_array, numeric_array
from aqueduct_core.telehash.events import PacketBatch

CANCELLED, FAILED, TIMEOUT = "cancelled", "failed", "timeout"
UNACKED = "unacked"

EVENTS = EventSchema((CANCELLED, FAILED, TIMEOUT), {STORED: 0, DEDUPED: 0, UNACKED: 0})
"""``reliableStored`` packets became rows, ``deduped`` were rows before; ``unacked`` of them and of
those that were still to be stored had no ack when the channel ended, so that their sender knows
nothing of them."""

CHANNEL = pa.struct(
    [
        pa.field("peer", pa.string()),
        pa.field("channelId", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("line", pa.string()),
        pa.field("timestamp", TIMESTAMP),
    ]
)
"""``line`` is the ``connectionId`` of events."""

COLUMNS = (
    pa.field("value", pa.binary()),
    pa.field("js", pa.string()),
    pa.field("seq", pa.int64()),
    pa.field("end", pa.bool_()),
    pa.field("channel", pa.run_end_encoded(pa.int32(), CHANNEL)),
)

ROW_SCHEMA = pa.schema(
    [
        ("value", pa.binary()),
        ("peer", pa.string()),
        ("channel_id", pa.int64()),
        ("type", pa.string()),
        ("seq", pa.int64()),
        ("js", pa.string()),
        ("is_end", pa.bool_()),
        ("channel_epoch", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
    ]
)
"""Of the rows of messages: exactly what Spark makes of the read schema."""


@dataclass(frozen=True, slots=True)
class TelehashSource(ChannelSource):
    """One channel of one line: its type is the name, its peer the producer. ``writer`` is who has
    marked the packets (`marks.MarkedRun`): these are known on any line."""

    writer: str | None = None

    @property
    def track(self) -> tuple[str, str]:
        if self.writer is None:
            return self.producer, self.channel
        return self.writer, self.channel + SPARSE

    @property
    def place(self) -> str:
        """A line has several channels of a type, and each of them is in order by itself."""
        return f"{self.producer}\0{self.connection}\0{self.channel_id}"

    @property
    def scattered(self) -> bool:
        return self.writer is not None


class TelehashRowFormat(RowFormat):
    names: ClassVar[Mapping[str, str]] = {"channel": "type", "producer": "peer"}

    def __init__(self) -> None:
        super().__init__(COLUMNS, EVENTS)

    def columns(self, slices: Sequence[BatchSlice]) -> list[pa.Array]:
        firsts, ends = runs_of_source(slices)
        shared = pa.StructArray.from_arrays(
            [
                array_of([each.source.producer for each in firsts], pa.string()),
                array_of([each.source.channel_id for each in firsts], pa.int64()),
                array_of([each.source.channel for each in firsts], pa.string()),
                array_of([each.source.connection for each in firsts], pa.string()),
                array_of([each.timestamp for each in firsts], TIMESTAMP),
            ],
            fields=list(CHANNEL),
        )
        return [
            payload_array(slices),
            _json(slices),
            _seqs(slices),
            _ends(slices),
            runs(ends, shared),
        ]

    def received(self, batch: pa.RecordBatch, row: int) -> int:
        channel = batch.column("channel")
        return int(channel.values.field("timestamp")[run_of(channel, row)].value or 0)

    def expand(
        self,
        batch: pa.RecordBatch,
        partition: int,
        first_offset: int,
        include_headers: bool,
        include_metadata: bool,
    ) -> pa.RecordBatch:
        count, channel = batch.num_rows, batch.column("channel")
        positions = run_of_each_row(channel)
        peer, number, kind, line, timestamp = (
            each.take(positions) for each in channel.values.flatten()
        )
        columns = {
            "value": batch.column("value"),
            "peer": peer,
            "channel_id": number,
            "type": kind,
            "seq": batch.column("seq"),
            "js": batch.column("js"),
            "is_end": batch.column("end"),
            "channel_epoch": line,
            "partition": constant(partition, count),
            "offset": counted(first_offset, count),
            "timestamp": timestamp,
        }
        return pa.RecordBatch.from_arrays(
            [columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA
        )


def _batch_of(each: BatchSlice) -> PacketBatch:
    assert isinstance(each.batch, PacketBatch)
    return each.batch


def _json(slices: Sequence[BatchSlice]) -> pa.Array:
    """It is UTF-8, as the engine has read it."""
    texts = [js for each in slices for js in _batch_of(each).js[each.low : each.high]]
    return array_of(texts, pa.binary()).view(pa.string())


def _seqs(slices: Sequence[BatchSlice]) -> pa.Array:
    """Packets of an unreliable channel have none."""
    firsts = [(each.batch.first + each.low, each.high - each.low) for each in slices]
    numbers = np.concatenate([np.arange(first, first + n, dtype=np.int64) for first, n in firsts])
    if all(each.batch.reliable for each in slices):
        return numeric_array(numbers)
    counts = [count for _, count in firsts]
    valid = np.packbits(
        np.repeat([each.batch.reliable for each in slices], counts), bitorder="little"
    )
    buffers = [pa.py_buffer(valid), pa.py_buffer(numbers)]
    return pa.Array.from_buffers(pa.int64(), len(numbers), buffers)


def _ends(slices: Sequence[BatchSlice]) -> pa.Array:
    """Only the last packet of a batch can be the end of its channel."""
    stops = np.cumsum([each.high - each.low for each in slices])
    ended = np.zeros(stops[-1], np.bool_)
    last = [_batch_of(each).end and each.high == each.batch.count for each in slices]
    ended[stops[last] - 1] = True
    return mask_array(ended)


ROWS = TelehashRowFormat()
