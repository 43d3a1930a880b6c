"""What rows weigh, asked of the intakes where a limit could matter."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from aqueduct_core.errors import AqueductError
from aqueduct_spark.planning.admission import apportion, apportion_bytes
from aqueduct_spark.planning.marks import Marks
from aqueduct_spark.planning.progress import Waiting
from aqueduct_spark.planning.ranges import DataRange
from aqueduct_spark.planning.splits import LogKey
from aqueduct_spark.planning.views import Seen
from aqueduct_spark.receivers.crew import Crew, stored_sizes

log = logging.getLogger(__name__)

FINENESS = 32
"""Marks for each limit's worth of bytes: so near to the limit a share or a piece comes."""

LEAST_STEP = 1 << 14
"""Bytes between two marks at least; an intake groups rows coarser than that."""


class Measuring:
    """Sizes by the index of each spool. Never raises for an intake that does not answer: its rows
    then count by number alone."""

    def __init__(self, crew: Crew, max_bytes: int | None) -> None:
        self._crew = crew
        self._max_bytes = max_bytes

    def shares(
        self, waiting: Sequence[Waiting], max_offsets: int | None, seen: Mapping[int, Seen]
    ) -> list[int]:
        """How many rows of each go into the next batch, within both limits."""
        shares = apportion([one.rows for one in waiting], max_offsets)
        most = self._max_bytes
        if most is None or sum(status.bytes for status in seen.values()) <= most:
            return shares
        marks = [
            self._ask(seen[one.intake], one, one.first + share, most)
            for one, share in zip(waiting, shares, strict=True)
        ]
        return apportion_bytes([one.first for one in waiting], shares, marks, most)

    def for_split(
        self, ranges: Sequence[DataRange], most: int | None, seen: Mapping[int, Seen]
    ) -> dict[LogKey, Marks]:
        """The sizes that a split by bytes needs. The same for the same ranges, also when the intake
        is gone but its spool can be seen from here."""
        if most is None:
            return {}
        found: dict[LogKey, Marks] = {}
        for rows in ranges:
            status = seen.get(rows.intake)
            if status is not None and status.bytes <= most:
                continue
            marks = self._sizes(rows, max(LEAST_STEP, most // FINENESS))
            if marks is not None:
                found[rows.intake, rows.partition] = marks
        return found

    def _ask(self, status: Seen, one: Waiting, stop: int, most: int) -> Marks | None:
        rows = DataRange(
            one.intake, status.id, status.at, status.first_log + one.index, one.first, stop
        )
        return self._sizes(rows, max(LEAST_STEP, most // FINENESS))

    def _sizes(self, rows: DataRange, step: int) -> Marks | None:
        client = self._crew.fleet.client(rows.intake)
        if client is not None:
            try:
                return client.sizes(rows.partition, rows.first, rows.stop, step)
            except AqueductError as error:
                log.info("sizes of partition %d: %s", rows.partition, error)
        directory = self._crew.directory(rows.intake)
        if directory is None:
            return None
        return stored_sizes(directory, rows.spool, rows.partition, rows.first, rows.stop, step)
