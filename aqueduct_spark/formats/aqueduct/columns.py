"""The columns of messages of Aqueduct as Spark types, and what its events count."""

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
"""The fields of ``counts`` of ``view=events``."""


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
