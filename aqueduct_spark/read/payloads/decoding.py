"""From rows with payloads to rows with what is in them: text, JSON objects, record batches.

Holds one batch of the source and what becomes of it, a slice at a time. What a payload may cost
is bounded by its size and by the limits of each format, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema

from aqueduct_core.errors import MalformedPayload
from aqueduct_spark.model.read_schemas import CORRUPT, CORRUPT_REASON, Decoding
from aqueduct_spark.read.payloads.arrow import ArrowPayloads
from aqueduct_spark.read.payloads.json import JsonPayloads

SLICE_ROWS = 4096
"""Payloads that are decoded at a time."""

REPEATED_BYTES = 4 * 1024 * 1024
"""What the intake tells of a message, repeated for the rows in it: so much at a time."""

ENTRYPOINT = "0"
"""The name of entrypoints. An empty message on one carries channels, and is no payload."""

Reasons = dict[int, str]
"""Why the payload of a row does not parse, by its place."""


def decoded(batches: Iterator[pa.RecordBatch], plan: Decoding) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of ``plan.schema``.

    Raises:
        MalformedPayload: with ``failFast``, for the first payload that does not parse.
    """
    schema = to_arrow_schema(plan.schema, timezone="UTC")
    match plan.payload_format:
        case "text":
            return _per_row(batches, plan, schema, _Text())
        case "json":
            columns = _payload_columns(plan, schema)
            return _per_row(batches, plan, schema, JsonPayloads(columns))
        case "arrow":
            return _per_message(batches, plan, schema)
    raise ValueError(f"no decoding of {plan.payload_format!r}")


def _payload_columns(plan: Decoding, schema: pa.Schema) -> pa.Schema:
    if plan.nested:
        return pa.schema(list(schema.field("value").type))
    return pa.schema([schema.field(name) for name in plan.fields])


class _Text:
    """Payloads as UTF-8; where they are not, with replacement characters."""

    def decode(self, values: pa.Array) -> tuple[dict[str, pa.Array], Reasons]:
        try:
            return {"value": values.cast(pa.string())}, {}
        except pa.ArrowInvalid:
            pass
        texts: list[str] = []
        reasons: Reasons = {}
        for row, payload in enumerate(values.to_pylist()):
            try:
                texts.append(payload.decode())
            except UnicodeDecodeError as error:
                texts.append(payload.decode(errors="replace"))
                reasons[row] = f"not UTF-8 at byte {error.start}"
        return {"value": pa.array(texts, pa.string())}, reasons


def _per_row(
    batches: Iterator[pa.RecordBatch],
    plan: Decoding,
    schema: pa.Schema,
    decoder: _Text | JsonPayloads,
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = batch if plan.payload_format == "text" else _without_carriers(batch)
        for first in range(0, rows.num_rows, SLICE_ROWS):
            piece = rows.slice(first, SLICE_ROWS)
            columns, reasons = decoder.decode(piece.column("value"))
            yield from _finished(piece, columns, reasons, plan, schema)


def _per_message(
    batches: Iterator[pa.RecordBatch], plan: Decoding, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    wanted = _payload_columns(plan, schema)
    decoder = ArrowPayloads(wanted)
    for batch in batches:
        rows = _without_carriers(batch)
        channels = rows.column("channel").to_pylist()
        for row, channel in enumerate(channels):
            message = rows.slice(row, 1)
            try:
                found = decoder.decode(message.column("value")[0].as_buffer(), channel)
            except ValueError as error:
                nulls = {field.name: pa.nulls(1, field.type) for field in wanted}
                yield from _finished(message, nulls, {0: str(error)}, plan, schema)
                continue
            for part in found:
                yield from _with_message(part, message, plan, schema)


def _with_message(
    part: pa.RecordBatch, message: pa.RecordBatch, plan: Decoding, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Rows of one message, each with what the intake tells of the message; never the payload."""
    told = message.select([name for name in message.schema.names if name != "value"])
    step = max(1, REPEATED_BYTES // max(told.nbytes, 1))
    for first in range(0, part.num_rows, step):
        piece = part.slice(first, step)
        repeated = told.take(pa.array(np.zeros(piece.num_rows, np.int64)))
        columns = dict(zip(part.schema.names, piece.columns, strict=True))
        yield from _finished(repeated, columns, {}, plan, schema)


def _without_carriers(batch: pa.RecordBatch) -> pa.RecordBatch:
    carriers = pc.and_(
        pc.equal(batch.column("channel"), ENTRYPOINT),
        pc.equal(pc.binary_length(batch.column("value")), 0),
    )
    return batch.filter(pc.invert(carriers)) if pc.any(carriers).as_py() else batch


def _finished(
    rows: pa.RecordBatch,
    columns: dict[str, pa.Array],
    reasons: Reasons,
    plan: Decoding,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """What the mode makes of bad ones; ``columns`` are those of the payload."""
    if reasons and plan.mode == "failFast":
        raise _malformed(rows, plan, *next(iter(reasons.items())))
    if plan.nested:
        bad = np.zeros(rows.num_rows, np.bool_)
        bad[list(reasons)] = True
        fields = list(schema.field("value").type)
        struct = pa.StructArray.from_arrays(
            list(columns.values()), fields=fields, mask=pa.array(bad)
        )
        columns = {"value": struct}
    made = []
    for field in schema:
        if field.name in columns:
            made.append(columns[field.name])
        elif field.name == CORRUPT and not reasons:
            made.append(pa.nulls(rows.num_rows, field.type))
        elif field.name == CORRUPT:
            kept = [row in reasons for row in range(rows.num_rows)]
            made.append(pc.if_else(pa.array(kept, pa.bool_()), rows.column("value"), None))
        elif field.name == CORRUPT_REASON:
            texts = [reasons.get(row) for row in range(rows.num_rows)]
            made.append(pa.array(texts, pa.string()))
        else:
            made.append(rows.column(field.name))
    batch = pa.RecordBatch.from_arrays(made, schema=schema)
    if reasons and plan.mode == "dropMalformed":
        good = [row not in reasons for row in range(rows.num_rows)]
        batch = batch.filter(pa.array(good, pa.bool_()))
    if batch.num_rows:
        yield batch


def _malformed(rows: pa.RecordBatch, plan: Decoding, row: int, reason: str) -> MalformedPayload:
    where = rows.slice(row, 1).select(["channel", "partition", "offset"]).to_pylist()[0]
    return MalformedPayload(
        "",
        f"The message at offset {where['offset']} of partition {where['partition']} (channel "
        f"'{where['channel']}') is no {plan.payload_format} payload: {reason}",
        "Correct its producer; mode=permissive goes on and shows it in column '_corrupt', "
        "mode=dropMalformed leaves it out",
    )
