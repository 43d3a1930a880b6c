"""The rows of ``view=events`` from the stored ones."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from aqueduct_core.intake.storage.schema import TIMESTAMP, source_column

COUNTS = pa.struct(
    [
        pa.field(name, pa.int64())
        for name in (
            "reliableSent",
            "reliableStored",
            "unreliableSent",
            "acked",
            "nacked",
            "late",
            "deduped",
        )
    ]
)

EVENT_SCHEMA = pa.schema(
    [
        pa.field("timestamp", TIMESTAMP),
        pa.field("kind", pa.string()),
        pa.field("connectionId", pa.string()),
        pa.field("channelId", pa.int64()),
        pa.field("channel", pa.string()),
        pa.field("producer", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("counts", COUNTS),
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
    ]
)
"""The Arrow schema of `expand_events`: exactly what Spark makes of the read schema."""


def expand_events(batch: pa.RecordBatch, first_offset: int) -> pa.RecordBatch:
    """The rows of a stored batch of events whose first row has ``first_offset``.

    Keys of an event that this release does not know are left aside. Raises ValueError for rows
    that are none of events.
    """
    count = batch.num_rows
    contents = [json.loads(value) for value in batch.column("value").to_pylist()]
    given = {
        name: pa.array([content.get(name) for content in contents], EVENT_SCHEMA.field(name).type)
        for name in ("kind", "reason", "counts", "first", "last")
    }
    given["partition"] = batch.column("messageNum").cast(pa.int32())
    given["offset"] = pa.array(np.arange(first_offset, first_offset + count, dtype=np.int64))
    columns = [
        given[field.name] if field.name in given else source_column(batch, field.name)
        for field in EVENT_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(columns, schema=EVENT_SCHEMA)
