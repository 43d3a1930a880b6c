"""The format ``quicr`` as Spark finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

from aqueduct_spark.datasource import FormatDataSource
from aqueduct_spark.formats.description import FormatDescription, RowMapping
from aqueduct_spark.formats.quicr.options import QUICR_OPTIONS, QuicrRead

if TYPE_CHECKING:
    from aqueduct_core.intake.quicr.settings import QuicrConnect, QuicrIntake
    from aqueduct_spark.options.read_parts import RowOptions
    from aqueduct_spark.write.sink import Sink


OBJECT_COUNTS = ("reliableStored", "holes", "deduped")
"""The fields of ``counts`` of ``view=events``."""


class QuicrFormat(FormatDescription):
    """Media of the QUICR prototype, over QUIC."""

    name = "quicr"
    protocol = "quicr"
    options = QUICR_OPTIONS
    event_counts = OBJECT_COUNTS
    tells_losses = True

    def message_schema(self, rows: RowOptions) -> StructType:
        return object_schema()

    def rows(self) -> RowMapping:
        from aqueduct_spark.formats.quicr.rows import QuicrRows

        return QuicrRows()

    def intake_settings(self, own: QuicrRead, **shared: Any) -> QuicrIntake:
        from aqueduct_core.intake.quicr.settings import QuicrIntake

        return QuicrIntake(media=own.media, **shared)

    def requested(self, own: QuicrRead) -> tuple[str, ...]:
        return own.urls

    def connect_settings(self, own: QuicrRead, **shared: Any) -> QuicrConnect:
        from aqueduct_core.intake.quicr.settings import QuicrConnect

        return QuicrConnect(urls=own.urls, subscribe_prefix=own.prefix, **shared)

    def sink(self) -> Sink:
        from aqueduct_spark.formats.quicr.sink.delivery import QuicrSink

        return QuicrSink()


class QuicrDataSource(FormatDataSource):
    """Media of the QUICR prototype.

    ``spark.readStream.format("quicr")`` asks an origin or a relay for media, or takes those that
    publishers post; ``df.write.format("quicr")`` posts rows as media.
    """

    description = QuicrFormat()


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
