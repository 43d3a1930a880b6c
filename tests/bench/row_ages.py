"""How old rows are when a query has them, of messages that come at a steady rate.

A message's age is from when it was due to be sent until the batch that has it is collected in
``foreachBatch``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from tests.bench.kafka_broker import Topic
from tests.bench.measuring import percentile
from tests.bench.queries import BACK_TO_BACK
from tests.bench.rows import QueryFailed
from tests.bench.steady import SIZE, age_ms, steady_sender
from tests.support.waiting import intake_status, wait_until

WARM = 3.0
"""Seconds at the beginning that are not counted: the first batches of a query."""
LONGEST = 180
LAUNCH = 90


class RowAges(NamedTuple):
    """Milliseconds; rows a batch."""

    p50: float
    p99: float
    rows: float


class Collected:
    """The rows of each batch, as ``foreachBatch`` gets them."""

    def __init__(self) -> None:
        self.ages: list[tuple[float, float]] = []  # seconds of the clock, milliseconds
        self.batches = 0

    def take(self, frame: DataFrame, batch: int) -> None:
        rows = [bytes(row[0]) for row in frame.select("value").collect()]
        now = time.monotonic()
        stamped = [(now, age_ms(row, now)) for row in rows if len(row) == SIZE]
        self.ages += stamped
        self.batches += bool(stamped)


def row_ages(
    frame: DataFrame,
    folder: Path,
    target: Callable[[], str | Topic],
    rate: float,
    seconds: float,
    trigger: str = BACK_TO_BACK,
) -> RowAges:
    """Of a query that runs for this; ``target`` gives where to send once it does."""
    collected = Collected()
    writer: Any = frame.writeStream.foreachBatch(collected.take).trigger(processingTime=trigger)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    total = int(rate * (WARM + seconds))
    try:
        with steady_sender(target(), rate, WARM + seconds):
            pass

        def complete() -> bool:
            if not query.isActive:
                raise QueryFailed(str(query.exception()))
            return len(collected.ages) >= total

        wait_until(complete, LONGEST, f"{total:,} rows")
    finally:
        query.stop()
    first = min(now - age / 1e3 for now, age in collected.ages)
    ages = [age for now, age in collected.ages if now - age / 1e3 >= first + WARM]
    rows = len(collected.ages) / collected.batches
    return RowAges(percentile(ages, 50), percentile(ages, 99), rows)


def our_ages(
    spark: SparkSession,
    place: Path,
    rate: float,
    seconds: float,
    trigger: str = BACK_TO_BACK,
    options: Mapping[str, str] | None = None,
) -> RowAges:
    """Of a query of ours that launches its intake."""
    spool = place / "spool"
    reader = spark.readStream.format("aqueduct").option("spool", str(spool))
    reader.options(**{"listen": "127.0.0.1:0", "tls.selfSigned": "true", "lease": "5s"})
    reader.options(**(options or {}))

    def endpoint() -> str:
        return f"aqueduct://{intake_status(spool, 0, LAUNCH)['listen']}"

    return row_ages(reader.load(), place, endpoint, rate, seconds, trigger)
