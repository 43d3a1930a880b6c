"""What sinks do alike with the columns of a frame: check them, cut them, and find rows in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, StringType, StructType, VarcharType

from aqueduct_core.errors import SchemaMismatch
from aqueduct_core.primitives.ranges import Numbers
from aqueduct_core.spool.arrays import numbers_in
from aqueduct_spark.options.payloads import check_payload_types

SLICE_ROWS = 8192
"""Rows that are turned into Python objects at a time: Spark hands over up to 64 MiB at once."""

SLICE_BYTES = 4 * 1024 * 1024
"""The same in bytes, about."""

VALUE_TYPES: dict[str, tuple[DataType, ...]] = {
    "binary": (BinaryType(), StringType()),
    "text": (StringType(),),
}
"""Of column ``value``, by payload format; with the others the payload is made of all columns that
say nothing else."""


def check_row_columns(
    schema: StructType,
    payload_format: str,
    control: Mapping[str, Sequence[DataType]],
    payload_of: str,
) -> None:
    """Refuse a frame with columns that no row of a message has.

    Args:
        control: the columns that say where and how a row goes, and their types.
        payload_of: what the bytes of a row are those of, for the error.

    Raises:
        SchemaMismatch: COLUMN_MISSING, COLUMN_UNKNOWN or COLUMN_TYPE.
    """
    payload, value = StructType(), VALUE_TYPES.get(payload_format)
    for each in schema.fields:
        allowed = control.get(each.name) or (value if each.name == "value" else None)
        if allowed is not None:
            if each.dataType not in allowed:
                expected = " or ".join(kind.simpleString() for kind in allowed)
                raise SchemaMismatch(
                    "COLUMN_TYPE",
                    f"Column '{each.name}' is {each.dataType.simpleString()}; it must be "
                    f"{expected}",
                    f"Cast '{each.name}'",
                )
        elif value is None:
            payload = payload.add(each)
        else:
            raise SchemaMismatch(
                "COLUMN_UNKNOWN",
                f"Column '{each.name}' cannot be written; the columns are value, "
                + ", ".join(control),
                "Drop it, or put what it holds into 'value'",
            )
    if value is None:
        check_payload_types(payload, payload_format, control.keys())
    elif "value" not in schema.fieldNames():
        raise SchemaMismatch(
            "COLUMN_MISSING",
            f"Column 'value' is missing; it holds the bytes of each {payload_of}",
            "Select them AS value (string or binary)",
        )


def table_columns(payload_format: str, place: str, longest: int) -> StructType:
    """The columns of a table that rows are inserted into: ``value``, and ``place``, the text of
    ``longest`` characters at most that says where a row goes; the option of that name beats it.

    Raises:
        SchemaMismatch: REQUIRED: with ``json`` only the user knows them.
    """
    if payload_format not in VALUE_TYPES:
        raise SchemaMismatch(
            "REQUIRED",
            f"payloadFormat={payload_format} makes payloads of columns that no table has yet",
            "Write a frame that has them",
        )
    kind = VALUE_TYPES[payload_format][0]
    return StructType().add("value", kind).add(place, VarcharType(longest))


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces of at most so many rows and bytes."""
    step = SLICE_ROWS
    if batch.nbytes > SLICE_BYTES:
        step = min(step, max(1, batch.num_rows * SLICE_BYTES // batch.nbytes))
    for first in range(0, batch.num_rows, step):
        yield batch.slice(first, step)


def by_text(column: pa.Array) -> Iterator[tuple[str, Numbers]]:
    """Each text of a column without nulls, with its rows in order."""
    encoded = column.dictionary_encode()
    codes = numbers_in(encoded.indices)
    for code, text in enumerate(encoded.dictionary.to_pylist()):
        yield text, np.flatnonzero(codes == code)


def refuse_rows(wrong: pa.Array, first: int, what: str, remedy: str) -> None:
    """``first``: the number of the first of these rows in its task.

    Raises:
        SchemaMismatch: REQUIRED, naming the first row that is wrong.
    """
    found = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
    if len(found):
        raise SchemaMismatch("REQUIRED", f"Row {first + int(found[0])} of the task {what}", remedy)
