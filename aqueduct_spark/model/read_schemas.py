"""Which columns of a read come out of payloads, and which are told by the intake.

With ``json`` and ``arrow`` the user gives the schema. A column that the intake knows under the same
name (channel, offset, …) is the intake's; ``_corrupt`` and ``_corruptReason`` tell of payloads that
do not parse; all others are fields of the payload. Where the only one of these is a struct called
``value``, the payload is that struct, so that its fields may have any name.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from aqueduct_core.errors import SchemaMismatch
from aqueduct_spark.model.schemas import check_read_schema, same_type
from aqueduct_spark.options.payloads import check_payload_types
from aqueduct_spark.options.read_parts import RowOptions

CORRUPT = "_corrupt"
"""The payload that does not parse, whole; null otherwise."""

CORRUPT_REASON = "_corruptReason"

_CORRUPT_COLUMNS = {CORRUPT: BinaryType(), CORRUPT_REASON: StringType()}


@dataclass(frozen=True)
class Decoding:
    """What a task makes of payloads.

    Args:
        payload_format: ``text``, ``json`` or ``arrow``.
        mode: ``permissive``, ``dropMalformed`` or ``failFast``.
        schema: all columns, in the order that Spark wants.
        fields: the names of those that come out of the payload.
        nested: they are the fields of the one struct ``value``.
    """

    payload_format: str
    mode: str
    schema: StructType
    fields: tuple[str, ...]
    nested: bool = False


def open_schema(ours: StructType, rows: RowOptions) -> StructType:
    """The columns of a read for which the user gave none; ``ours`` are those of the format.

    Raises:
        SchemaMismatch: REQUIRED where only the user knows them.
    """
    if rows.payload_format in ("json", "arrow"):
        raise SchemaMismatch(
            "REQUIRED",
            f"payloadFormat={rows.payload_format} needs the columns of the payloads",
            "Name them with .schema(…), with those of channel, offset and others that you want",
        )
    return _with_text(ours) if rows.payload_format == "text" else ours


def decoding(schema: StructType, ours: StructType, rows: RowOptions) -> Decoding | None:
    """How payloads become the columns of ``schema``; None: they stay as they are. ``ours`` are the
    columns of the format.

    Raises:
        SchemaMismatch: COLUMN_TYPE, COLUMN_MISSING.
    """
    if rows.payload_format == "binary":
        check_read_schema(schema, ours)
        return None
    if rows.payload_format == "text":
        known = [field for field in schema.fields if field.name not in _CORRUPT_COLUMNS]
        check_read_schema(StructType(known), _with_text(ours))
        _check_corrupt(schema)
        return Decoding("text", rows.mode, schema, ("value",))
    _check_corrupt(schema)
    told = {field.name: field for field in ours.fields if field.name != "value"}
    payload = []
    for field in schema.fields:
        if field.name in told:
            _check_told(field, told[field.name])
        elif field.name not in _CORRUPT_COLUMNS:
            payload.append(field)
    nested = [f.name for f in payload] == ["value"] and isinstance(payload[0].dataType, StructType)
    columns = payload[0].dataType if nested else StructType(payload)
    assert isinstance(columns, StructType)
    check_payload_types(columns, rows.payload_format, told)
    return Decoding(
        rows.payload_format, rows.mode, schema, tuple(columns.fieldNames()), nested=nested
    )


def _with_text(schema: StructType) -> StructType:
    return StructType(
        [StructField("value", StringType()) if f.name == "value" else f for f in schema.fields]
    )


def _check_corrupt(schema: StructType) -> None:
    for name, kind in _CORRUPT_COLUMNS.items():
        if name in schema.fieldNames() and not same_type(schema[name].dataType, kind):
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column '{name}' is {schema[name].dataType.simpleString()}; it must be "
                f"{kind.simpleString()}",
                f"Correct '{name}' in .schema(…)",
            )


def _check_told(given: StructField, ours: StructField) -> None:
    if not same_type(given.dataType, ours.dataType):
        raise SchemaMismatch(
            "COLUMN_TYPE",
            f"Column '{given.name}' is {given.dataType.simpleString()}; it is what the intake "
            f"tells, {ours.dataType.simpleString()}",
            "Correct its type; for a field of the payload with this name, read the payload as one "
            "column 'value' of type struct",
        )
