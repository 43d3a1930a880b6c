"""Rows as Arrow payloads: each message is an Arrow IPC stream of one record batch.

Where a message begins and ends, and each of its bytes, follow from the rows alone: a task that is
done again gets the same rows in record batches of other sizes, and has to send the same messages
under the same numbers.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.spool.arrays import numbers_in, numeric_array
from aqueduct_spark.write.payloads import too_large

Sizes = np.ndarray[tuple[int], np.dtype[np.int64]]

ROW_BYTES = 8
"""What a row counts for apart from its values, so that rows without any are bounded too."""


def payload_rows(rows: pa.RecordBatch, besides: Collection[str]) -> pa.RecordBatch:
    """The columns that are sent: all but those ``besides``."""
    names = [name for name in rows.schema.names if name not in besides]
    return rows.select(names).replace_schema_metadata(None)


def arrow_messages(rows: pa.RecordBatch, max_message_bytes: int) -> list[tuple[int, bytes]]:
    """Payload rows as one message, or as several where it would be over the limit; each with the
    place of its first row.

    Raises:
        SinkFailed: MESSAGE_TOO_LARGE when a single row is over the limit.
    """
    columns = [_fresh(column) for column in rows.columns]
    fresh = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, fresh.schema) as writer:
        writer.write_batch(fresh)
    message: bytes = sink.getvalue().to_pybytes()
    if len(message) <= max_message_bytes:
        return [(0, message)]
    if rows.num_rows == 1:
        raise too_large(len(message), max_message_bytes)
    half = rows.num_rows // 2
    behind = arrow_messages(rows.slice(half), max_message_bytes)
    return [
        *arrow_messages(rows.slice(0, half), max_message_bytes),
        *((half + first, message) for first, message in behind),
    ]


def row_sizes(rows: pa.RecordBatch) -> Sizes:
    """Bytes of the values of each row, and ``ROW_BYTES``: the same wherever the row stands."""
    total = np.full(rows.num_rows, ROW_BYTES, np.int64)
    for column in rows.columns:
        total += _value_sizes(column)
    return total


def _value_sizes(values: pa.Array) -> Sizes:
    kind = values.type
    if pa.types.is_struct(kind):
        total = np.zeros(len(values), np.int64)
        for field in values.flatten():
            total += _value_sizes(field)
        return total
    if pa.types.is_map(kind):
        entry = pa.struct([("key", kind.key_type), ("value", kind.item_type)])
        return _value_sizes(values.cast(pa.list_(entry)))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = _lengths(pc.list_value_length(values))
        inner = np.concatenate(([0], np.cumsum(_value_sizes(pc.list_flatten(values)))))
        stops = np.cumsum(lengths)
        sizes: Sizes = inner[stops] - inner[stops - lengths] + 4
        return sizes
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return np.full(len(values), (kind.bit_width + 7) // 8, np.int64)
    return _lengths(pc.binary_length(values)) + 4


def _lengths(lengths: pa.Array) -> Sizes:
    counts: Sizes = numbers_in(lengths).astype(np.int64)
    return counts


def _fresh(values: pa.Array) -> pa.Array:
    """The same values in buffers of their own that hold nothing else: no offset, nothing where a
    value is null, no rest of what was there before."""
    kind = values.type
    mask = values.is_null() if values.null_count else None
    if pa.types.is_struct(kind):
        fields = [_fresh(field) for field in values.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=mask)
    taken = values.take(numeric_array(np.arange(len(values))))
    if pa.types.is_map(kind):
        keys, items = _fresh(taken.keys), _fresh(taken.items)
        return pa.MapArray.from_arrays(_offsets(taken), keys, items, type=kind, mask=mask)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made: Any = pa.LargeListArray if pa.types.is_large_list(kind) else pa.ListArray
        return made.from_arrays(_offsets(taken), _fresh(taken.values), type=kind, mask=mask)
    return taken


def _offsets(taken: pa.Array) -> pa.Array:
    return numeric_array(numbers_in(taken.offsets))
