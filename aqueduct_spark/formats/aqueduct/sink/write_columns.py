"""The columns of a frame to be written: checked before any task runs."""

from __future__ import annotations

from pyspark.sql.types import (
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    VarcharType,
)

from aqueduct_core.errors import SchemaMismatch
from aqueduct_spark.formats.aqueduct.columns import header_type
from aqueduct_spark.formats.aqueduct.options import (
    CONTROL_COLUMNS,
    LONGEST_CHANNEL,
    SOURCE_COLUMNS,
)
from aqueduct_spark.model.schemas import same_type
from aqueduct_spark.options.payloads import check_payload_types
from aqueduct_spark.write.row_columns import VALUE_TYPES

_CONTROL: dict[str, tuple[DataType, ...]] = {
    "channel": (StringType(),),
    "headers": (header_type(),),
    "reliability": (StringType(),),
}
_SOURCE: dict[str, tuple[DataType, ...]] = {
    "spool": (StringType(),),
    "partition": (IntegerType(), LongType()),
    "offset": (LongType(),),
}


def check_write_schema(
    schema: StructType, payload_format: str = "binary", *, by_source: bool = False
) -> None:
    """Refuse a frame that cannot be sent. ``by_source``: its rows say where they come from.

    With ``binary`` and ``text`` the payload is column ``value``; with ``json`` and ``arrow`` it is
    made of all columns that do not say where a row goes.

    Raises:
        SchemaMismatch: COLUMN_MISSING, COLUMN_UNKNOWN or COLUMN_TYPE.
    """
    if by_source:
        schema = _without_source(schema)
    payload = StructType()
    value = VALUE_TYPES.get(payload_format)
    for field in schema.fields:
        if field.name in CONTROL_COLUMNS:
            _check_type(field.name, field.dataType, _CONTROL[field.name])
        elif value is None:
            payload = payload.add(field)
        elif field.name == "value":
            _check_type(field.name, field.dataType, value)
        else:
            raise SchemaMismatch(
                "COLUMN_UNKNOWN",
                f"Column '{field.name}' cannot be written; the columns are value, "
                + ", ".join(CONTROL_COLUMNS),
                _instead(field.name),
            )
    if value is None:
        check_payload_types(payload, payload_format, CONTROL_COLUMNS)
    elif "value" not in schema.fieldNames():
        raise SchemaMismatch(
            "COLUMN_MISSING",
            "Column 'value' is missing; it holds the payload of each message",
            "Select the payload AS value (string or binary)",
        )
    if payload_format == "arrow" and "headers" in schema.fieldNames():
        raise SchemaMismatch(
            "COLUMN_UNKNOWN",
            "Column 'headers' cannot be written with payloadFormat=arrow, where a message is many "
            "rows",
            "Drop it, or write with another payloadFormat",
        )


def write_table_schema(payload_format: str, *, by_source: bool = False) -> StructType:
    """The columns of a table that rows are inserted into: the payload and its channel, and with
    ``by_source`` where a row comes from.

    Raises:
        SchemaMismatch: REQUIRED: with ``json`` and ``arrow`` only the user knows them.
    """
    if payload_format not in VALUE_TYPES:
        raise SchemaMismatch(
            "REQUIRED",
            f"payloadFormat={payload_format} makes payloads of columns that no table has yet",
            "Write a frame that has them",
        )
    schema = StructType().add("value", VALUE_TYPES[payload_format][0])
    schema = schema.add("channel", VarcharType(LONGEST_CHANNEL))
    if by_source:
        for name, kinds in _SOURCE.items():
            schema = schema.add(name, kinds[-1])
    return schema


def _instead(name: str) -> str:
    """What to do with a column that is none; they are told apart by case, too."""
    meant = name.lower()
    if meant in ("value", *CONTROL_COLUMNS):
        return f"Rename it to '{meant}'"
    return "Drop it, or put what it holds into 'value' or 'headers'"


def _without_source(schema: StructType) -> StructType:
    missing = [name for name in SOURCE_COLUMNS if name not in schema.fieldNames()]
    if missing:
        raise SchemaMismatch(
            "COLUMN_MISSING",
            f"Column '{missing[0]}' is missing; idempotence=source knows rows by "
            + ", ".join(SOURCE_COLUMNS),
            "Read with includeSpool=true and keep these columns, or leave 'idempotence' out",
        )
    for name in SOURCE_COLUMNS:
        _check_type(name, schema[name].dataType, _SOURCE[name])
    return StructType([field for field in schema.fields if field.name not in SOURCE_COLUMNS])


def _check_type(name: str, found: DataType, allowed: tuple[DataType, ...]) -> None:
    if not any(same_type(found, kind) for kind in allowed):
        expected = " or ".join(kind.simpleString() for kind in allowed)
        raise SchemaMismatch(
            "COLUMN_TYPE",
            f"Column '{name}' is {found.simpleString()}; it must be {expected}",
            f"Cast '{name}'",
        )
