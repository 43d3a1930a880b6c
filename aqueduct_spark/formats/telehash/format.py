"""The format ``telehash`` as Spark finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from aqueduct_spark.datasource import FormatDataSource
from aqueduct_spark.formats.description import FormatDescription, RowMapping
from aqueduct_spark.formats.telehash.options import TELEHASH_OPTIONS, TelehashRead

if TYPE_CHECKING:
    from aqueduct_core.intake.telehash.settings import TelehashConnect, TelehashIntake
    from aqueduct_spark.options.read_parts import RowOptions
    from aqueduct_spark.write.sink import Sink


PACKET_COUNTS = ("reliableStored", "deduped", "unacked")
"""The fields of ``counts`` of ``view=events``."""


class TelehashFormat(FormatDescription):
    """Channels of Telehash v2, over QUIC datagrams or plain UDP."""

    name = "telehash"
    protocol = "telehash"
    options = TELEHASH_OPTIONS
    event_counts = PACKET_COUNTS

    def message_schema(self, rows: RowOptions) -> StructType:
        return packet_schema()

    def rows(self) -> RowMapping:
        from aqueduct_spark.formats.telehash.rows import TelehashRows

        return TelehashRows()

    def intake_settings(self, own: TelehashRead, **shared: Any) -> TelehashIntake:
        from aqueduct_core.intake.telehash.settings import TelehashIntake

        line = own.line
        return TelehashIntake(
            channels=own.channels,
            types=own.types,
            carrier=line.carrier,
            udp_trusted=line.trusted,
            hashname=line.hashname,
            peer_hashname=line.peer_hashname,
            **shared,
        )

    def requested(self, own: TelehashRead) -> tuple[str, ...]:
        return own.types

    def connect_settings(self, own: TelehashRead, **shared: Any) -> TelehashConnect:
        from aqueduct_core.intake.telehash.settings import TelehashConnect

        return TelehashConnect(**shared)

    def sink(self) -> Sink:
        from aqueduct_spark.formats.telehash.sink.delivery import TelehashSink

        return TelehashSink()


class TelehashDataSource(FormatDataSource):
    """Channels of Telehash v2.

    ``spark.readStream.format("telehash")`` takes the packets of channels that peers open, or that
    it opens at a peer; ``df.write.format("telehash")`` sends rows as packets.
    """

    description = TelehashFormat()


def packet_schema() -> StructType:
    """The schema of ``view=messages``."""
    return (
        StructType()
        .add("value", BinaryType())
        .add("peer", StringType())
        .add("channel_id", LongType())
        .add("type", StringType())
        .add("seq", LongType())
        .add("js", StringType())
        .add("is_end", BooleanType())
        .add("channel_epoch", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
    )
