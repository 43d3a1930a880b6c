"""The columns of a frame to be written: checked before any task runs."""

from __future__ import annotations

from pyspark.sql.types import BinaryType, DataType, StringType, StructType

from aqueduct_core.errors import SchemaMismatch
from aqueduct_spark.model.payloads import CONTROL_COLUMNS, check_payload_types
from aqueduct_spark.model.schemas import header_type, same_type

_CONTROL: dict[str, tuple[DataType, ...]] = {
    "channel": (StringType(),),
    "headers": (header_type(),),
    "reliability": (StringType(),),
}
_VALUE: dict[str, tuple[DataType, ...]] = {
    "binary": (BinaryType(), StringType()),
    "text": (StringType(),),
}


def check_write_schema(schema: StructType, payload_format: str = "binary") -> None:
    """Refuse a frame that cannot be sent.

    With ``binary`` and ``text`` the payload is column ``value``; with ``json`` and ``arrow`` it is
    made of all columns that do not say where a row goes.

    Raises:
        SchemaMismatch: COLUMN_MISSING, COLUMN_UNKNOWN or COLUMN_TYPE.
    """
    payload = StructType()
    value = _VALUE.get(payload_format)
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
                "Drop it, or put what it holds into 'value' or 'headers'",
            )
    if value is None:
        check_payload_types(payload, payload_format)
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


def _check_type(name: str, found: DataType, allowed: tuple[DataType, ...]) -> None:
    if not any(same_type(found, kind) for kind in allowed):
        expected = " or ".join(kind.simpleString() for kind in allowed)
        raise SchemaMismatch(
            "COLUMN_TYPE",
            f"Column '{name}' is {found.simpleString()}; it must be {expected}",
            f"Cast '{name}'",
        )
