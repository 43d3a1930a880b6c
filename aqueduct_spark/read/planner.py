"""The planner of a streaming query: lives in the driver's Python process, and moves no payload.

All of it is made with the first call that needs it. Everything that outlives a call is in the
offsets; what is kept here only saves work or asks less often.
"""

from __future__ import annotations

import logging
import time
from pathlib import Path

from aqueduct_core.errors import IntakeFailed, InvalidOption
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import IntakeStatus
from aqueduct_spark.model.offsets import StreamOffset
from aqueduct_spark.model.partitions import DataPartition, LaunchOrder, LaunchPartition
from aqueduct_spark.model.read_options import StreamReadOptions
from aqueduct_spark.model.source import Listen
from aqueduct_spark.planning.progress import Ends, Terms, advance, reaches
from aqueduct_spark.planning.ranges import data_ranges
from aqueduct_spark.planning.ticks import commit_is_due
from aqueduct_spark.receivers.fleet import CURSOR, Fleet
from aqueduct_spark.receivers.hosts import bind_host, reachable_host
from aqueduct_spark.receivers.orders import launch_order
from aqueduct_spark.receivers.process import LOG_FILE
from aqueduct_spark.receivers.rendezvous import Rendezvous
from aqueduct_spark.receivers.renewal import Renewal

log = logging.getLogger(__name__)

LONG_POLL = 1.0
"""Longest time in seconds that a call of Spark is held when nothing is new."""

MAX_LAUNCHES = 5
"""Launches in a row without seeing all intakes: then they end as soon as they run."""


class StreamPlanner:
    """Plans the batches of one query run. Called by one thread; ends with `stop` or the process."""

    def __init__(self, options: StreamReadOptions) -> None:
        self._options = options
        self._terms = Terms(
            options.intakes,
            options.partitions_per_intake or 1,
            options.starting,
            options.fail_on_data_loss,
        )
        source = options.source
        if not isinstance(source, Listen):
            raise InvalidOption("NOT_FOR_QUERY_TYPE", "Streams listen", "Set 'listen'")
        self._spool = source.spool
        self._credentials = Credentials.for_spool(Path(source.spool))
        self._rendezvous = Rendezvous(bind_host(source.address), self._credentials)
        self._address = f"{reachable_host(source.address)}:{self._rendezvous.port}"
        self._fleet = Fleet(self._rendezvous, self._credentials, options.intakes)
        self._renewal = Renewal(self._fleet, options.lease)
        self._bounded = False
        self._ceiling: dict[int, Ends] = {}
        self._ticked: StreamOffset | None = None
        self._launches = 0
        self._reach: StreamOffset | None = None

    def available_now(self) -> None:
        """From now on, nothing counts that is stored later than each intake is first seen."""
        self._bounded = True

    def latest(self, start: StreamOffset, limit: int | None) -> StreamOffset:
        """The end of the next batch; equal to ``start`` when there is nothing to do.

        Waits for news up to `LONG_POLL`, but not for a query that is to end with what is there.
        """
        seen = self._observe(start)
        end = self._advance(start, seen, limit)
        if end == start and not self._bounded:
            self._fleet.await_news(seen, LONG_POLL)
            seen = self._observe(start)
            end = self._advance(start, seen, limit)
        if end == start and commit_is_due(start, seen, CURSOR, self._ticked):
            self._ticked = start
            end = start.ticked()
        return end

    def reach(self) -> StreamOffset | None:
        """How far a batch could go as of the last look; for progress reports."""
        return self._reach

    def partitions(
        self, start: StreamOffset, end: StreamOffset
    ) -> list[LaunchPartition | DataPartition]:
        """The tasks of the batch between two offsets: the same rows whenever it is asked.

        Launches come first, so that they have the first task slots.
        """
        tasks: list[LaunchPartition | DataPartition] = []
        if end.launch > start.launch:
            running = self._fleet.observe(end)
            tasks += [
                LaunchPartition(self._order(intake, start))
                for intake in range(self._options.intakes)
                if intake not in running
            ]
        return tasks + [
            DataPartition(
                rows=rows,
                order=self._order(rows.intake, end),
                fetch_timeout=self._options.fetch_timeout,
                lenient=not self._options.fail_on_data_loss,
            )
            for rows in data_ranges(start, end)
        ]

    def commit(self, end: StreamOffset) -> None:
        """Spark is done with everything before ``end``."""
        self._fleet.commit(end)

    def stop(self) -> None:
        """Close what is open here. Intakes stay until their lease is over, to be adopted."""
        self._renewal.stop()
        self._fleet.close()
        self._rendezvous.shutdown()

    def _observe(self, start: StreamOffset) -> dict[int, IntakeStatus]:
        seen = self._fleet.observe(start)
        if self._bounded:
            for intake, status in seen.items():
                self._ceiling.setdefault(intake, status.ends)
        self._reach = reaches(start, seen)
        return seen

    def _advance(
        self, start: StreamOffset, seen: dict[int, IntakeStatus], limit: int | None
    ) -> StreamOffset:
        step = advance(
            start,
            seen,
            self._terms,
            limit=limit,
            ceiling=self._ceiling if self._bounded else None,
        )
        for loss in step.losses:
            log.warning("failOnDataLoss=false: %s", loss)
        self._count_launch(launching=step.end.launch > start.launch, seen=seen)
        return step.end

    def _count_launch(self, *, launching: bool, seen: dict[int, IntakeStatus]) -> None:
        if not launching:
            self._launches = 0
            return
        if self._launches >= MAX_LAUNCHES:
            gone = [i for i in range(self._options.intakes) if i not in seen]
            raise IntakeFailed(
                "UNREACHABLE",
                f"Intakes {gone} were launched {self._launches} times in a row and did not stay",
                f"Read {self._spool}/intake-{gone[0]}/{LOG_FILE}",
            )
        if self._launches:
            time.sleep(min(LONG_POLL, 0.1 * 2**self._launches))
        self._launches += 1

    def _order(self, intake: int, known: StreamOffset) -> LaunchOrder:
        position = known.spool.get(intake)
        must_be = position.id if position and self._options.fail_on_data_loss else None
        return launch_order(self._options, intake, self._credentials, self._address, must_be)
