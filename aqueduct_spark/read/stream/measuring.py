"""How many bytes rows take, as the intakes know it, where a limit could matter."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from aqueduct_core.errors import AqueductError
from aqueduct_spark.intakes.attach import AttachedIntakes, stored_sizes
from aqueduct_spark.model.offsets import DataRange
from aqueduct_spark.planning.admission import apportion, apportion_bytes
from aqueduct_spark.planning.progress import Waiting
from aqueduct_spark.planning.ranges import SizeIndex
from aqueduct_spark.planning.splits import LogKey
from aqueduct_spark.planning.views import Seen

log = logging.getLogger(__name__)

FINENESS = 32
"""Entries of an index for each limit's worth of bytes: so near to the limit a share or a piece
comes."""

LEAST_ROWS, GUESS = 1024, 4
"""Rows whose sizes are requested first, at least, and how many times more than the limit seems to
allow; the same factor from one try to the next."""

LEAST_STEP = 1 << 14
"""Bytes between two entries at least; an intake groups rows coarser than that."""


class Measuring:
    """Sizes by the index of each spool. Never raises for an intake that does not answer: its rows
    then count by number alone."""

    def __init__(self, intakes: AttachedIntakes, max_bytes: int | None) -> None:
        self._intakes = intakes
        self._max_bytes = max_bytes

    def shares(
        self, waiting: Sequence[Waiting], max_offsets: int | None, seen: Mapping[int, Seen]
    ) -> list[int]:
        """How many rows of each go into the next batch, within both limits."""
        shares = apportion([one.rows for one in waiting], max_offsets)
        most = self._max_bytes
        if most is None or sum(status.bytes for status in seen.values()) <= most:
            return shares
        indexes = [
            self._sizes_up_to(seen[one.intake], one, one.first + share, most)
            for one, share in zip(waiting, shares, strict=True)
        ]
        return apportion_bytes([one.first for one in waiting], shares, indexes, most)

    def waiting_bytes(self, waiting: Sequence[Waiting], seen: Mapping[int, Seen]) -> float:
        """About as many stored bytes as wait: by the mean of all rows of each spool."""
        found = 0.0
        for one in waiting:
            status = seen[one.intake]
            stored = sum(e - s for s, e in zip(status.starts, status.ends, strict=True))
            found += one.rows * status.bytes / max(1, stored)
        return found

    def for_split(
        self, ranges: Sequence[DataRange], most: int | None, seen: Mapping[int, Seen]
    ) -> dict[LogKey, SizeIndex]:
        """The sizes that a split by bytes needs, also when the intake is gone but its spool can be
        seen from here."""
        if most is None:
            return {}
        found: dict[LogKey, SizeIndex] = {}
        for rows in ranges:
            status = seen.get(rows.intake)
            if status is not None and status.bytes <= most:
                continue
            index = self._sizes(rows, max(LEAST_STEP, most // FINENESS))
            if index is not None:
                found[rows.intake, rows.partition] = index
        return found

    def _sizes_up_to(self, status: Seen, one: Waiting, stop: int, most: int) -> SizeIndex | None:
        """The sizes of the rows up to ``stop``, or of enough of them to be more than ``most``: an
        intake looks at each record of such a range."""
        stored = sum(e - s for s, e in zip(status.starts, status.ends, strict=True))
        count = max(LEAST_ROWS, GUESS * most * stored // max(1, status.bytes))
        log_number = status.first_log + one.index
        while True:
            end = min(stop, one.first + count)
            rows = DataRange(one.intake, status.id, status.at, log_number, one.first, end)
            index = self._sizes(rows, max(LEAST_STEP, most // FINENESS))
            if not index or end == stop or index[-1][1] > most:
                return index
            count *= GUESS

    def _sizes(self, rows: DataRange, step: int) -> SizeIndex | None:
        client = self._intakes.clients.client(rows.intake)
        if client is not None:
            try:
                return client.sizes(rows.partition, rows.first, rows.stop, step)
            except AqueductError as error:
                log.info("sizes of partition %d: %s", rows.partition, error)
        directory = self._intakes.directory(rows.intake)
        if directory is None:
            return None
        return stored_sizes(directory, rows.spool, rows.partition, rows.first, rows.stop, step)
