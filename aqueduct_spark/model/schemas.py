"""The columns that users see, as Spark types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
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

if TYPE_CHECKING:
    from aqueduct_spark.options.read_parts import RowOptions


def read_schema(rows: RowOptions) -> StructType:
    """The columns that a read with these options gives."""
    if rows.view == "events":
        return event_schema()
    if rows.view == "status":
        return status_schema()
    return message_schema(
        include_headers=rows.include_headers,
        include_metadata=rows.include_metadata,
        include_spool=rows.include_spool,
    )


def message_schema(
    *, include_headers: bool = False, include_metadata: bool = False, include_spool: bool = False
) -> StructType:
    """The schema of ``view=messages``."""
    schema = (
        StructType()
        .add("value", BinaryType())
        .add("channel", StringType())
        .add("producer", StringType())
        .add("messageNum", LongType())
        .add("reliable", BooleanType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
    )
    if include_headers:
        for name in ("headers", "channelHeaders", "connectionHeaders"):
            schema = schema.add(name, header_type())
    if include_metadata:
        schema = (
            schema.add("connectionId", StringType())
            .add("channelId", LongType())
            .add("parentChannelId", LongType())
            .add("parentMessageNum", LongType())
            .add("attachments", ArrayType(_attachment_type()))
        )
    if include_spool:
        schema = schema.add("spool", StringType())
    return schema


def event_schema() -> StructType:
    """The schema of ``view=events``."""
    counts = StructType()
    for name in EVENT_COUNTS:
        counts = counts.add(name, LongType())
    return (
        StructType()
        .add("timestamp", TimestampType())
        .add("kind", StringType())
        .add("connectionId", StringType())
        .add("channelId", LongType())
        .add("channel", StringType())
        .add("producer", StringType())
        .add("reason", StringType())
        .add("counts", counts)
        .add("first", LongType())
        .add("last", LongType())
        .add("partition", IntegerType())
        .add("offset", LongType())
    )


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


EVENT_COUNTS = (
    "reliableSent",
    "reliableStored",
    "unreliableSent",
    "acked",
    "nacked",
    "late",
    "deduped",
)


def header_type() -> ArrayType:
    """Header data: pairs in wire order, repeats kept."""
    return ArrayType(StructType().add("key", StringType()).add("value", BinaryType()))


def _attachment_type() -> StructType:
    return (
        StructType()
        .add("channelId", LongType())
        .add("direction", StringType())
        .add("headers", header_type())
    )


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
