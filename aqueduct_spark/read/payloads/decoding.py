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
from aqueduct_core.spool.arrays import mask_array, numeric_array, text_array
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.model.read_schemas import CORRUPT, CORRUPT_REASON, Decoding
from aqueduct_spark.read.payloads.arrow import ArrowPayloads
from aqueduct_spark.read.payloads.json import JsonPayloads

SLICE_ROWS = 4096
"""Payloads that are decoded at a time."""

REPEATED_BYTES = 4 * 1024 * 1024
"""The other columns of a message, repeated for the rows in it: so much at a time."""

Reasons = dict[int, str]
"""Why the payload of a row does not parse, by its place."""


def decoded(
    batches: Iterator[pa.RecordBatch], plan: Decoding, mapping: RowMapping
) -> Iterator[pa.RecordBatch]:
    """The rows with the columns of ``plan.schema``.

    Raises:
        MalformedPayload: with ``failFast``, for the first payload that does not parse.
    """
    decoder = _Decoder(plan, mapping)
    match plan.payload_format:
        case "text":
            return decoder.per_row(batches, _Text())
        case "json":
            payloads = (mapping.payloads(batch) for batch in batches)
            return decoder.per_row(payloads, JsonPayloads(decoder.payload_columns))
        case "arrow":
            return decoder.per_message(mapping.payloads(batch) for batch in batches)
    raise ValueError(f"no decoding of {plan.payload_format!r}")


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
        return {"value": text_array(texts)}, reasons


class _Decoder:
    """Puts the columns of payloads beside the others, and does what the mode says of bad ones."""

    def __init__(self, plan: Decoding, mapping: RowMapping) -> None:
        self._plan = plan
        self._mapping = mapping
        self._schema = to_arrow_schema(plan.schema, timezone="UTC")

    @property
    def payload_columns(self) -> pa.Schema:
        if self._plan.nested:
            return pa.schema(list(self._schema.field("value").type))
        return pa.schema([self._schema.field(name) for name in self._plan.fields])

    def per_row(
        self, batches: Iterator[pa.RecordBatch], payloads: _Text | JsonPayloads
    ) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            for first in range(0, rows.num_rows, SLICE_ROWS):
                piece = rows.slice(first, SLICE_ROWS)
                columns, reasons = payloads.decode(piece.column("value"))
                yield from self._finished(piece, columns, reasons)

    def per_message(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = self.payload_columns
        payloads = ArrowPayloads(wanted)
        for rows in batches:
            for row in range(rows.num_rows):
                message = rows.slice(row, 1)
                try:
                    found = payloads.decode(message.column("value")[0].as_buffer())
                except ValueError as error:
                    nulls = {field.name: pa.nulls(1, field.type) for field in wanted}
                    yield from self._finished(message, nulls, {0: str(error)})
                    continue
                for part in found:
                    yield from self._with_message(part, message)

    def _with_message(
        self, part: pa.RecordBatch, message: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        """Rows of one message, each with the other columns of the message; never the payload."""
        others = message.select([name for name in message.schema.names if name != "value"])
        step = max(1, REPEATED_BYTES // max(others.nbytes, 1))
        for first in range(0, part.num_rows, step):
            piece = part.slice(first, step)
            repeated = others.take(numeric_array(np.zeros(piece.num_rows, np.int64)))
            columns = dict(zip(part.schema.names, piece.columns, strict=True))
            yield from self._finished(repeated, columns, {})

    def _finished(
        self, rows: pa.RecordBatch, columns: dict[str, pa.Array], reasons: Reasons
    ) -> Iterator[pa.RecordBatch]:
        """What the mode makes of bad ones; ``columns`` are those of the payload."""
        if reasons and self._plan.mode == "failFast":
            raise self._malformed(rows, *next(iter(reasons.items())))
        if self._plan.nested:
            bad = np.zeros(rows.num_rows, np.bool_)
            bad[list(reasons)] = True
            fields = list(self._schema.field("value").type)
            struct = pa.StructArray.from_arrays(
                list(columns.values()), fields=fields, mask=mask_array(bad)
            )
            columns = {"value": struct}
        made = []
        for field in self._schema:
            if field.name in columns:
                made.append(columns[field.name])
            elif field.name == CORRUPT and not reasons:
                made.append(pa.nulls(rows.num_rows, field.type))
            elif field.name == CORRUPT:
                kept = [row in reasons for row in range(rows.num_rows)]
                made.append(pc.if_else(mask_array(kept), rows.column("value"), pa.NA))
            elif field.name == CORRUPT_REASON:
                texts = [reasons.get(row) for row in range(rows.num_rows)]
                made.append(text_array(texts))
            else:
                made.append(rows.column(field.name))
        batch = pa.RecordBatch.from_arrays(made, schema=self._schema)
        if reasons and self._plan.mode == "dropMalformed":
            good = [row not in reasons for row in range(rows.num_rows)]
            batch = batch.filter(mask_array(good))
        if batch.num_rows:
            yield batch

    def _malformed(self, rows: pa.RecordBatch, row: int, reason: str) -> MalformedPayload:
        message = rows.slice(row, 1).to_pylist()[0]
        return MalformedPayload(
            "",
            f"The message at offset {message['offset']} of partition {message['partition']} "
            f"({self._mapping.shown(message)}) is no {self._plan.payload_format} payload: {reason}",
            "Correct its producer; mode=permissive goes on and shows it in column '_corrupt', "
            "mode=dropMalformed leaves it out",
        )
