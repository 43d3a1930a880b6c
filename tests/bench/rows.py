"""How many rows a streaming query has made, told from what it reports of its batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

KEPT_REPORTS = 64
"""What Spark is to keep of a query's reports (``spark.sql.streaming.numRecentProgressUpdates``)."""


class QueryFailed(RuntimeError):
    """A query that was to be measured has ended by itself; the text is what it ended with."""


class Query(Protocol):
    """What is needed of Spark's ``StreamingQuery``."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None: ...
    @property
    def recentProgress(self) -> list[Any]: ...
    @property
    def isActive(self) -> bool: ...
    def exception(self) -> Exception | None: ...


class RowCount:
    """Rows by batch.

    A trigger without data is reported without rows under the id of the batch that comes next, and
    that one later under the same id: of each id, the highest number counts.
    """

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}

    def take(self, progress: Mapping[str, Any]) -> None:
        batch, rows = progress["batchId"], progress["numInputRows"]
        self._rows[batch] = max(rows, self._rows.get(batch, 0))

    @property
    def total(self) -> int:
        return sum(self._rows.values())

    @property
    def batches(self) -> int:
        """Those that had rows."""
        return sum(rows > 0 for rows in self._rows.values())

    @property
    def newest(self) -> int:
        """Id of the newest batch that was reported; -1 before the first."""
        return max(self._rows, default=-1)


class RowWatch:
    """The rows of a running query; look at it more often than it makes ``KEPT_REPORTS`` batches.

    Asks for the last report only, and for all that Spark keeps when that has a new id, since the
    one before may have come in between: to turn many reports to text at each look would cost the
    driver that is measured.
    """

    def __init__(self, query: Query) -> None:
        self._query = query
        self._count = RowCount()

    @property
    def batches(self) -> int:
        return self._count.batches

    def rows(self) -> int:
        """Raises QueryFailed when the query has ended."""
        if not self._query.isActive:
            raise QueryFailed(str(self._query.exception() or "the query was stopped"))
        last = self._query.lastProgress
        if last is not None:
            if last["batchId"] > self._count.newest:
                for progress in self._query.recentProgress:
                    self._count.take(progress)
            self._count.take(last)
        return self._count.total
