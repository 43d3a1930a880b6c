"""The columns of messages and events of Aqueduct, as Spark types."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

EVENT_COUNTS = (
    "reliableSent",
    "reliableStored",
    "unreliableSent",
    "acked",
    "nacked",
    "late",
    "deduped",
)


def message_schema(*, include_headers: bool = False, include_metadata: bool = False) -> StructType:
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
