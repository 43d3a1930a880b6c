"""The columns of a stored message, and the rows that a reader makes of them.

Stored: what differs from message to message is a plain column; what all messages of a run share
(channel, producer, receive time, …) is one run-end encoded column ``source``, so that small
messages do not carry it each. `expand` turns stored rows into the flat rows that users see.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
"""Header data in wire order, repeats kept. Keys that are not UTF-8 are shown with escapes."""

ATTACHMENTS = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("channelId", pa.int64()),
                pa.field("direction", pa.string()),
                pa.field("headers", HEADERS),
            ]
        ),
    )
)
"""``direction`` as the intake sees it: ``receive`` (messages flow to it) or ``send``."""

TIMESTAMP = pa.timestamp("us", tz="UTC")

SOURCE = pa.struct(
    [
        pa.field("channel", pa.string()),
        pa.field("producer", pa.string()),
        pa.field("reliable", pa.bool_()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("connectionId", pa.string()),
        pa.field("channelId", pa.int64()),
        pa.field("parentChannelId", pa.int64()),
        pa.field("parentMessageNum", pa.int64()),
        pa.field("channelHeaders", HEADERS),
        pa.field("connectionHeaders", HEADERS),
    ]
)

SPOOL_SCHEMA = pa.schema(
    [
        pa.field("value", pa.binary()),
        pa.field("messageNum", pa.int64()),
        pa.field("headers", HEADERS),
        pa.field("attachments", ATTACHMENTS),
        pa.field("source", pa.run_end_encoded(pa.int32(), SOURCE)),
    ]
)

_FIRST: tuple[tuple[str, pa.DataType], ...] = (
    ("value", pa.binary()),
    ("channel", pa.string()),
    ("producer", pa.string()),
    ("messageNum", pa.int64()),
    ("reliable", pa.bool_()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", TIMESTAMP),
)
_HEADERS = (
    ("headers", HEADERS),
    ("channelHeaders", HEADERS),
    ("connectionHeaders", HEADERS),
)
_METADATA = (
    ("connectionId", pa.string()),
    ("channelId", pa.int64()),
    ("parentChannelId", pa.int64()),
    ("parentMessageNum", pa.int64()),
    ("attachments", ATTACHMENTS),
)


@cache
def row_schema(include_headers: bool, include_metadata: bool) -> pa.Schema:
    """The Arrow schema of `expand`'s rows: exactly what Spark makes of the read schema."""
    fields = _FIRST
    if include_headers:
        fields += _HEADERS
    if include_metadata:
        fields += _METADATA
    return pa.schema([pa.field(name, kind) for name, kind in fields])


def expand(
    batch: pa.RecordBatch,
    partition: int,
    first_offset: int,
    include_headers: bool,
    include_metadata: bool,
) -> pa.RecordBatch:
    """The rows of a stored batch whose first row has ``first_offset``; payloads are not copied."""
    count = batch.num_rows
    source = batch.column("source")
    runs = source.values.flatten()
    positions = _run_of_each_row(source)
    schema = row_schema(include_headers, include_metadata)
    columns = []
    for field in schema:
        if field.name == "partition":
            column = pa.array(np.full(count, partition, np.int32))
        elif field.name == "offset":
            column = pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64))
        elif (index := SOURCE.get_field_index(field.name)) >= 0:
            column = runs[index].take(positions)
        else:
            column = batch.column(field.name)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def source_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """A field of ``source`` as a flat column of a stored batch."""
    source = batch.column("source")
    return source.values.flatten()[SOURCE.get_field_index(name)].take(_run_of_each_row(source))


def _run_of_each_row(source: pa.RunEndEncodedArray) -> pa.Array:
    """The index of its run for each row; ``source`` may be a slice of a longer array."""
    ends = source.run_ends.to_numpy()
    rows = np.arange(source.offset, source.offset + len(source))
    return pa.array(np.searchsorted(ends, rows, side="right"))


def oldest_timestamp(batch: pa.RecordBatch) -> int:
    """Microseconds since 1970 of the first row of a stored batch, which has some."""
    return _timestamp(batch.column("source"), 0)


def newest_timestamp(batch: pa.RecordBatch) -> int:
    """The same of its last row; times never go back inside a log."""
    return _timestamp(batch.column("source"), batch.num_rows - 1)


def _timestamp(source: pa.RunEndEncodedArray, row: int) -> int:
    run = int(np.searchsorted(source.run_ends.to_numpy(), source.offset + row, side="right"))
    return int(source.values.field("timestamp")[run].value or 0)
