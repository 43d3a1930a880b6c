"""What payload formats ask of the columns, on both sides: frozen facts and checks at the door."""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from aqueduct_core.errors import SchemaMismatch

_JSON_TYPES = (
    StringType,
    BinaryType,
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    DateType,
    TimestampType,
    TimestampNTZType,
)


def check_payload_types(columns: StructType, payload_format: str, besides: Collection[str]) -> None:
    """Refuse columns that a payload of this format cannot hold. ``besides``: those that are none
    of it.

    Raises:
        SchemaMismatch: COLUMN_MISSING or COLUMN_TYPE.
    """
    if not columns.fields:
        raise SchemaMismatch(
            "COLUMN_MISSING",
            f"No column holds a payload; with payloadFormat={payload_format} it is made of all "
            f"columns but {', '.join(besides)}",
            "Select the columns of the payload too",
        )
    for field in columns.fields:
        if not _fits(field.dataType, arrow=payload_format == "arrow"):
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column '{field.name}' is {field.dataType.simpleString()}, which "
                f"payloadFormat={payload_format} does not carry",
                f"Cast '{field.name}', or drop it",
            )


def _fits(kind: DataType, *, arrow: bool) -> bool:
    match kind:
        case ArrayType():
            return _fits(kind.elementType, arrow=arrow)
        case StructType():
            return bool(kind.fields) and all(_fits(f.dataType, arrow=arrow) for f in kind.fields)
        case MapType():
            keyed = arrow or isinstance(kind.keyType, StringType)
            return keyed and all(_fits(t, arrow=arrow) for t in (kind.keyType, kind.valueType))
    return isinstance(kind, _JSON_TYPES)
