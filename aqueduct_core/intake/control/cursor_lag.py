"""How far cursors are behind what is durable: in rows, bytes and time."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from aqueduct_core.errors import AqueductError
from aqueduct_core.flight.activity import CursorLag, SpoolUse
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.intake.storage.rows import RowFormat
from aqueduct_core.spool import Spool

log = logging.getLogger(__name__)

MOST_CURSORS = 32
"""Cursors of which the age of the oldest row is looked up; more are counted in rows and bytes."""

KEPT = 1_024
"""Rows of which the time is remembered: it never changes."""


def uncommitted(spool: Spool, partitions: int) -> int:
    """Messages that the slowest cursor has not passed; without a cursor all of them."""
    ends, starts, cursors = spool.ends(), spool.starts(), spool.cursors().values()
    return sum(
        max(0, ends[log] - min((at for each in cursors if (at := each[log]) is not None),
                               default=starts[log]))
        for log in range(partitions)
    )  # fmt: skip


class CursorLags:
    """Looks rows up in the spool; any thread may call.

    The age of a row costs a read of the record that holds it, once for each place where a cursor
    has stood.
    """

    def __init__(self, spool: Spool, rows: RowFormat) -> None:
        self._spool = spool
        self._rows = rows
        self._times: dict[tuple[int, int], int] = {}

    def oldest(self, status: IntakeStatus, now: float) -> tuple[float, ...]:
        """The age of the first row of each partition that the slowest cursor has not passed."""
        ages = []
        for partition, (start, end) in enumerate(zip(status.starts, status.ends, strict=True)):
            at = max(start, min((ends[partition] for ends in status.committed.values()), default=0))
            ages.append(self._age(partition, at, end, now))
        return tuple(ages)

    def of(self, status: IntakeStatus, now: float) -> tuple[CursorLag, ...]:
        """Of each cursor; the farthest behind first."""
        events = len(status.ends)
        found = [
            self._lag(cursor, "messages", range(events), committed, status, now, number)
            for number, (cursor, committed) in enumerate(sorted(status.committed.items()))
        ] + [
            self._lag(cursor, "events", range(events, events + 1), (at,), status, now, number)
            for number, (cursor, at) in enumerate(sorted(status.events_committed.items()))
        ]
        return tuple(sorted(found, key=lambda lag: (-lag.records, lag.cursor)))

    def use(self, status: IntakeStatus, limit: int) -> SpoolUse:
        """What the spool takes."""
        rows = sum(status.ends) - sum(status.starts) + status.events[1] - status.events[0]
        return SpoolUse(status.bytes, limit, len(self._spool.segments), rows)

    def _lag(
        self,
        cursor: str,
        view: str,
        logs: range,
        committed: Sequence[int],
        status: IntakeStatus,
        now: float,
        number: int,
    ) -> CursorLag:
        starts, ends = (*status.starts, status.events[0]), (*status.ends, status.events[1])
        places = [(log, max(starts[log], at)) for log, at in zip(logs, committed, strict=True)]
        behind = [(log, at) for log, at in places if at < ends[log]]
        return CursorLag(
            cursor=cursor,
            view=view,
            records=sum(ends[log] - at for log, at in behind),
            bytes=sum(self._spool.bytes_from(log, at) for log, at in behind),
            seconds=max((self._age(log, at, ends[log], now) for log, at in behind), default=0.0)
            if number < MOST_CURSORS
            else 0.0,
            held=cursor in status.held,
        )

    def _age(self, log_number: int, at: int, end: int, now: float) -> float:
        if at >= end:
            return 0.0
        stored = self._times.get((log_number, at))
        if stored is None:
            try:
                rows = next(self._spool.read(log_number, at, at + 1))
            except AqueductError as error:
                # trimmed a moment ago, or damaged: a status is no place to fail for it
                log.warning("the oldest row of partition %d: %s", log_number, error)
                return 0.0
            stored = self._rows.oldest_timestamp(rows)
            while len(self._times) >= KEPT:
                self._times.pop(next(iter(self._times)), None)
            self._times[log_number, at] = stored
        return max(0.0, now - stored / 1_000_000)
