"""A stream of messages ends with the first event that it is to fail for: ``onCancel=fail``, and
where a protocol tells by events what is lost, ``failOnDataLoss``.

The planner reads the log of events before it plans a batch. How far it has read is a cursor of its
own, so nothing is overlooked between two runs, nothing is truncated unread, and a query that failed
fails again until its options are changed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from aqueduct_core.errors import AqueductError, ChannelEnded, DataLoss
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.flight.tickets import CANCELS, Ticket
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.intakes.clients import IntakeClients
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.options.starting import AtTime, Latest, Starting
from aqueduct_spark.planning.views import Reader
from aqueduct_spark.read.gaps import stored_rows
from aqueduct_spark.read.shaping import RowShaper

log = logging.getLogger(__name__)


class EventWatch:
    """Has the events that are new checked.

    A new query looks from where it starts to read: from the first event stored with
    ``earliest`` and offsets, from the present end with ``latest``, from a time with a time.
    """

    def __init__(
        self,
        cursor: str,
        rows: RowOptions,
        starting: Starting,
        mapping: RowMapping,
        checks: Sequence[Callable[[pa.RecordBatch, int], None]],
    ) -> None:
        self.reader = Reader(cursor + CANCELS, "events")
        self._mapping = mapping
        self._checks = checks
        self._shaper = RowShaper(mapping, replace(rows, view="events"))
        self._starting = starting
        self._positions: dict[str, int] = {}

    def look(self, start: StreamOffset, clients: IntakeClients) -> None:
        """Read the events that became durable since the last look. An intake that does not answer
        is looked at the next time.

        Raises:
            ChannelEnded, DataLoss: what a check says.
            DataLoss: events that were not looked at are gone.
            SpoolFailed: CORRUPT when they cannot be read: one to fail for may be among them.
        """
        for intake, status in clients.statuses().items():
            client = clients.client(intake)
            if client is None:
                continue
            try:
                known = intake in start.spool and start.spool[intake].id == status.id
                position = self._position(status, client, known)
                if position < status.events[1]:
                    self._read(intake, status, client, position)
            except (ChannelEnded, DataLoss):
                raise
            except AqueductError as error:
                if error.name == "AQUEDUCT_SPOOL.CORRUPT":
                    raise
                log.warning("events of intake %d: %s", intake, error)
                continue
            if self._positions.get(status.id) != status.events[1]:
                self._positions[status.id] = status.events[1]
                clients.commit_cursor(intake, self.reader, status.events[1:], status.id)

    def _position(self, status: IntakeStatus, client: IntakeClient, known: bool) -> int:
        if status.id in self._positions:
            return self._positions[status.id]
        looked = status.events_committed.get(self.reader.cursor, status.events[0])
        if known:
            return looked
        stored = max(status.events[0], looked)
        match self._starting:
            case Latest():
                return max(status.events[0], (status.opened or status.events)[-1])
            case AtTime(microseconds):
                return max(stored, client.locate(microseconds, view="events")[0])
        return stored

    def _read(self, intake: int, status: IntakeStatus, client: IntakeClient, first: int) -> None:
        log_number = len(status.ends)
        ticket = Ticket(status.id, log_number, first, status.events[1])
        for at, batch in stored_rows(client, ticket, self._mapping.stored_schema):
            for events in self._shaper.rows(batch, log_number, at):
                for check in self._checks:
                    check(events, intake)
