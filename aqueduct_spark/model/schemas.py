"""Columns as Spark types: those of ``view=status`` and ``view=events``, which every format has, and
comparing."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from aqueduct_core.errors import SchemaMismatch


def status_schema() -> StructType:
    """The schema of ``view=status``: a row for each message partition of each intake."""
    schema = StructType()
    for name, kind in (
        ("intake", IntegerType()),
        ("spool", StringType()),
        ("epoch", LongType()),
        ("state", StringType()),
        ("listen", StringType()),
        ("flight", StringType()),
        ("partition", IntegerType()),
        ("startOffset", LongType()),
        ("durableOffset", LongType()),
        ("committedOffset", LongType()),
        ("cursors", MapType(StringType(), LongType())),
        ("bytes", LongType()),
        ("spoolBytes", LongType()),
        ("full", BooleanType()),
        ("connections", LongType()),
        ("channels", LongType()),
        ("oldestUncommittedSeconds", DoubleType()),
        ("messagesPerSecond", DoubleType()),
        ("bytesPerSecond", DoubleType()),
    ):
        schema = schema.add(name, kind)
    return schema


def event_schema(counts: Iterable[str]) -> StructType:
    """The schema of ``view=events``: what happened on connections and channels, with what the
    protocol counts of each."""
    counted = StructType()
    for name in counts:
        counted = counted.add(name, LongType())
    schema = StructType()
    for name, kind in (
        ("timestamp", TimestampType()),
        ("kind", StringType()),
        ("connectionId", StringType()),
        ("channelId", LongType()),
        ("channel", StringType()),
        ("producer", StringType()),
        ("reason", StringType()),
        ("counts", counted),
        ("first", LongType()),
        ("last", LongType()),
        ("partition", IntegerType()),
        ("offset", LongType()),
    ):
        schema = schema.add(name, kind)
    return schema


def check_read_schema(given: StructType, ours: StructType) -> None:
    """Refuse a schema given by the user that is not the one the options lead to."""
    if not same_type(given, ours):
        raise SchemaMismatch(
            "COLUMN_TYPE",
            f"The schema given is {given.simpleString()}; with these options the columns are "
            f"{ours.simpleString()}",
            "Leave .schema(…) out",
        )


def same_type(one: DataType, other: DataType) -> bool:
    """Equality that looks away from nullability, which Spark changes on the way."""
    match one, other:
        case StructType(), StructType():
            return len(one.fields) == len(other.fields) and all(
                _same_field(a, b) for a, b in zip(one.fields, other.fields, strict=True)
            )
        case ArrayType(), ArrayType():
            return same_type(one.elementType, other.elementType)
    return one == other


def _same_field(one: StructField, other: StructField) -> bool:
    return one.name == other.name and same_type(one.dataType, other.dataType)
