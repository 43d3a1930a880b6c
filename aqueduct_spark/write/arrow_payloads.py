"""Record batches as payloads: each message is an Arrow IPC stream of one batch."""

from __future__ import annotations

import pyarrow as pa

from aqueduct_spark.model.payloads import CONTROL_COLUMNS
from aqueduct_spark.write.payloads import too_large

MESSAGE_BYTES = 4 * 1024 * 1024
"""A larger batch becomes several messages, so that one is sent, stored and read at ease."""


def arrow_messages(part: pa.RecordBatch, max_message_bytes: int) -> list[bytes]:
    """The rows as messages, in order; columns that say where a row goes are left out.

    Raises:
        SinkFailed: MESSAGE_TOO_LARGE when a single row is over the limit.
    """
    names = [name for name in part.schema.names if name not in CONTROL_COLUMNS]
    rows = part.select(names).replace_schema_metadata(None)
    messages: list[bytes] = []
    _append(messages, rows, min(MESSAGE_BYTES, max_message_bytes), max_message_bytes)
    return messages


def _append(messages: list[bytes], rows: pa.RecordBatch, wanted: int, most: int) -> None:
    size = pa.ipc.get_record_batch_size(rows)
    if size > wanted and rows.num_rows > 1:
        half = rows.num_rows // 2
        _append(messages, rows.slice(0, half), wanted, most)
        _append(messages, rows.slice(half), wanted, most)
        return
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    message = sink.getvalue().to_pybytes()
    if len(message) > most:
        if rows.num_rows == 1:
            raise too_large(len(message), most)
        _append(messages, rows, size // 2, most)
        return
    messages.append(message)
