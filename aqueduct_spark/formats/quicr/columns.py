"""The columns of objects of QUICR as Spark types, and what its events count."""

from __future__ import annotations

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

OBJECT_COUNTS = ("reliableStored", "holes", "deduped")
"""The fields of ``counts`` of ``view=events``."""


def object_schema() -> StructType:
    """The schema of ``view=messages``."""
    return (
        StructType()
        .add("value", BinaryType())
        .add("url", StringType())
        .add("group_id", LongType())
        .add("object_id", LongType())
        .add("flags", ShortType())
        .add("is_hole", BooleanType())
        .add("droppable", BooleanType())
        .add("drop_priority", ShortType())
        .add("queue_delay_ms", LongType())
        .add("is_last_of_group", BooleanType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
    )
