"""What Spark has to know of a protocol: one description per format.

Imported in every session that uses any Python data source, so it imports little: what needs Arrow
or a network is imported by the methods that hand it out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from aqueduct_core.errors import InvalidOption
from aqueduct_spark.model.schemas import event_schema, status_schema
from aqueduct_spark.options.table import OptionTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from aqueduct_core.intake.settings.dial import ConnectSettings
    from aqueduct_core.intake.settings.intake import IntakeSettings
    from aqueduct_spark.options.read_parts import RowOptions
    from aqueduct_spark.write.sink import Sink


class RowMapping(ABC):
    """Makes the rows of a view of what an intake of the format has stored.

    Batches are those of the spool, with its columns; rows are those that Spark gets. No method
    keeps anything of a batch, and one object serves any number of threads.
    """

    stored_schema: ClassVar[pa.Schema]
    """The columns of the spool, those of messages and of events alike."""

    @abstractmethod
    def messages(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, rows: RowOptions
    ) -> pa.RecordBatch:
        """The rows of ``view=messages``, with exactly the columns of `message_schema`, but for
        ``spool``. The first row of the batch has ``first_offset``."""

    @abstractmethod
    def events(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        """The rows of ``view=events``, with exactly the columns of `model.schemas.event_schema`."""

    @abstractmethod
    def received_at(self, batch: pa.RecordBatch, row: int) -> int:
        """When a stored row was received, in microseconds since 1970. Never goes back in a log."""

    @abstractmethod
    def selectable(self, batch: pa.RecordBatch) -> pa.StructArray | pa.RunEndEncodedArray:
        """What rows are selected by, ``channel`` and ``producer``: an entry for each stored row,
        or for each run of them."""

    def payloads(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of `messages` whose ``value`` is a payload to decode."""
        return messages

    def shown(self, message: Mapping[str, Any]) -> str:
        """How an error names a row of `messages`, apart from its offset."""
        return f"channel '{message['channel']}'"

    def event_checks(
        self, *, on_cancel: str, fail_on_data_loss: bool
    ) -> list[Callable[[pa.RecordBatch, int], None]]:
        """What a stream of messages has to find out from events, and to fail for, with these
        options. Each check gets rows of `events` and the number of their intake.

        Raises:
            ChannelEnded: CANCELLED, with ``onCancel=fail``: for the first row that says so.
            DataLoss: with ``failOnDataLoss``, where events say what will never be a row.
        """
        return []

    def open_channels(self, events: Iterable[pa.RecordBatch], names: Sequence[str]) -> list[str]:
        """Of the channels that were asked for by ``names``, or opened, those whose end is not among
        the rows of `events`. For an error that should name them."""
        return list(names)


class FormatDescription(ABC):
    """One format of Spark. It has no state, so it travels to tasks as the name of its class.

    Args:
        name: as in ``spark.read.format(name)``.
        protocol: the adapter of the intakes that are launched: one that the intake knows by name,
            or ``package.module:NAME``.
        options: everything that its queries may be told.
        event_counts: what the protocol counts, as its adapter's `EventSchema` has it.
    """

    name: ClassVar[str]
    protocol: ClassVar[str]
    options: ClassVar[OptionTable]
    event_counts: ClassVar[Sequence[str]]
    tells_losses: ClassVar[bool] = False
    """Events say what will never be a row: ``failOnDataLoss`` has them looked at."""

    def schema(self, rows: RowOptions) -> StructType:
        """The columns that a read with these options gives, payloads not decoded."""
        if rows.view == "events":
            return event_schema(self.event_counts)
        if rows.view == "status":
            return status_schema()
        schema = self.message_schema(rows)
        return schema.add("spool", "string") if rows.include_spool else schema

    @abstractmethod
    def message_schema(self, rows: RowOptions) -> StructType:
        """The columns of ``view=messages``; ``partition``, ``offset`` and ``value`` among them."""

    @abstractmethod
    def rows(self) -> RowMapping:
        """What makes rows of stored batches; for tasks and planners."""

    def check_protocol(self, found: str, where: object) -> None:
        """
        Args:
            found: the protocol of messages, as their spool or its intake says.
            where: for the error: that spool, or intake.

        Raises:
            InvalidOption: CONFLICT: they are no rows of this format.
        """
        if found == self.protocol:
            return
        from aqueduct_core.intake.adapter import adapter_named

        own = adapter_named(self.protocol).name
        if found != own:
            raise InvalidOption(
                "CONFLICT",
                f"{where} holds messages of protocol {found}, and format {self.name} reads those "
                f"of protocol {own}",
                f"Read it with a format of protocol {found}, or name another spool",
            )

    def intake_settings(self, own: Any, **shared: Any) -> IntakeSettings:
        """Of an intake that a query launches; ``shared`` are those that every protocol has, ``own``
        the options of the read that the format alone has."""
        from aqueduct_core.intake.settings.intake import IntakeSettings

        return IntakeSettings(protocol=self.protocol, **shared)

    def requested(self, own: Any) -> tuple[str, ...]:
        """The channels that a read that dials asks for, for errors."""
        return ()

    def connect_settings(self, own: Any, **shared: Any) -> ConnectSettings:
        """What such an intake is to ask the endpoints for, with the settings that every protocol
        has."""
        from aqueduct_core.intake.settings.dial import ConnectSettings

        return ConnectSettings(**shared)

    def sink(self) -> Sink | None:
        """Where rows are written to; None: the format is for reading alone."""
        return None
