"""How far a query is behind, in the log of its driver: a line for each micro-batch.

Spark takes no metrics from sources in Python. What it does hand on is how far a batch went and how
far it could have gone; the difference is what waits.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from aqueduct_core.logs.lines import LineFormatter

log = logging.getLogger(__name__)


class ProgressLog(StreamingQueryListener):
    """Logs a line for each micro-batch of each query of a session that reads with us, as
    information: ``spark.streams.addListener(ProgressLog())``. Other queries have no line. Ends with
    ``removeListener``.

    Lines are records of the logger ``aqueduct_spark.progress_log``, whose level it sets where it
    has none. Where the program has not set up logging they go to standard error, which else would
    have warnings alone.
    """

    def __init__(self) -> None:
        if log.level == logging.NOTSET:
            log.setLevel(logging.INFO)
        if not log.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(LineFormatter())
            handler.addFilter(lambda record: not logging.getLogger().handlers)
            log.addHandler(handler)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        line = progress_line(event.progress)
        if line is not None:
            log.info("%s", line)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Spark says it."""


def progress_line(progress: Any) -> str | None:
    """The line of a micro-batch; None where no source of it is one of ours."""
    found = [behind(each.endOffset, each.latestOffset) for each in progress.sources]
    known = [each for each in found if each is not None]
    if not known:
        return None
    return (
        f"query {progress.name or progress.id} batch {progress.batchId}: "
        f"{progress.numInputRows} rows, {progress.processedRowsPerSecond or 0.0:.0f}/s, "
        f"{sum(known)} behind"
    )


def behind(end: str | None, latest: str | None) -> int | None:
    """How many rows lie between what a batch read and what there is; None where the two are no
    offsets of ours, or nothing is known of what there is. A spool that was replaced, or that the
    batch did not know, counts from its first row."""
    try:
        read, there = json.loads(end or "")["spool"], json.loads(latest or "")["spool"]
        total = 0
        for intake, position in there.items():
            known = read.get(intake, {})
            same = known.get("id") == position["id"]
            before = known["to"] if same else [0] * len(position["to"])
            total += sum(max(0, to - at) for to, at in zip(position["to"], before, strict=False))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return total
