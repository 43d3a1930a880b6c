"""The format ``aqueduct`` as Spark finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aqueduct_spark.datasource import FormatDataSource
from aqueduct_spark.formats.aqueduct.columns import EVENT_COUNTS, message_schema
from aqueduct_spark.formats.aqueduct.options import AQUEDUCT_OPTIONS, AqueductRead
from aqueduct_spark.formats.description import FormatDescription, RowMapping

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from aqueduct_core.intake.aqueduct.settings import AqueductConnect, AqueductIntake
    from aqueduct_spark.options.read_parts import RowOptions
    from aqueduct_spark.write.sink import Sink


class AqueductFormat(FormatDescription):
    """Channels of the Aqueduct protocol, over QUIC."""

    name = "aqueduct"
    protocol = "aqueduct"
    options = AQUEDUCT_OPTIONS
    event_counts = EVENT_COUNTS

    def message_schema(self, rows: RowOptions) -> StructType:
        own: AqueductRead = rows.own
        return message_schema(
            include_headers=own.include_headers, include_metadata=own.include_metadata
        )

    def rows(self) -> RowMapping:
        from aqueduct_spark.formats.aqueduct.rows import AqueductRows

        return AqueductRows()

    def intake_settings(self, own: AqueductRead, **shared: Any) -> AqueductIntake:
        from aqueduct_core.intake.aqueduct.settings import AqueductIntake

        return AqueductIntake(protocol=self.protocol, **shared)

    def requested(self, own: AqueductRead) -> tuple[str, ...]:
        return tuple(request.name for request in own.requests)

    def connect_settings(self, own: AqueductRead, **shared: Any) -> AqueductConnect:
        from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription

        subscriptions = tuple(
            Subscription(request.name, request.headers, request.payload) for request in own.requests
        )
        return AqueductConnect(subscriptions=subscriptions, **shared)

    def sink(self) -> Sink:
        from aqueduct_spark.formats.aqueduct.sink.attempt import AqueductSink

        return AqueductSink()


class AqueductDataSource(FormatDataSource):
    """Channels of the Aqueduct protocol.

    ``spark.readStream.format("aqueduct")`` accepts producers; ``df.write.format("aqueduct")``
    sends rows to an endpoint. Options are refused at ``load()`` and ``save()``.
    """

    description = AqueductFormat()
