"""Send → row at 1,000 messages a second: ours beside Spark's source for Kafka.

    python -m tests.bench.kafka_latency [--repetitions 5] [--seconds 10]

Both queries run one at a time in a warm session, each batch as soon as the one before is over, and
collect their rows; a message's time is from when it was due until the batch that has it is in the
hands of ``foreachBatch``. Ours is durable and has TLS; so has the topic.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from tests.bench.kafka_broker import Broker, broker, session_conf
from tests.bench.kafka_rows import stream_of
from tests.bench.measuring import Bench, Effort, in_turns, percentile, ratios
from tests.bench.queries import spark_session, work_folder
from tests.bench.rows import QueryFailed
from tests.bench.sheet import Sheet
from tests.bench.steady import SIZE, age_ms, steady_sender
from tests.support.waiting import intake_status, wait_until

OURS, KAFKA = "ours", "Kafka, durable, TLS"
RATE = 1_000.0
WARM = 3.0
"""Seconds at the beginning that are not counted: the first batches of a query."""
LONGEST = 180


class Latency(NamedTuple):
    """Milliseconds; rows a batch."""

    p50: float
    p99: float
    rows: float


class Ages:
    """Of the rows of each batch, as ``foreachBatch`` gets them."""

    def __init__(self) -> None:
        self.ages: list[tuple[float, float]] = []  # seconds of the clock, milliseconds
        self.batches = 0

    def take(self, frame: DataFrame, batch: int) -> None:
        rows = [bytes(row[0]) for row in frame.select("value").collect()]
        now = time.monotonic()
        stamped = [(now, age_ms(row, now)) for row in rows if len(row) == SIZE]
        self.ages += stamped
        self.batches += bool(stamped)


def latency(frame: DataFrame, folder: Path, target: Any, seconds: float) -> Latency:
    """Of a query; ``target`` gives where to send once it runs."""
    ages = Ages()
    writer: Any = frame.writeStream.foreachBatch(ages.take)
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    total = int(RATE * (WARM + seconds))
    try:
        with steady_sender(target(), RATE, WARM + seconds):
            pass

        def complete() -> bool:
            if not query.isActive:
                raise QueryFailed(str(query.exception()))
            return len(ages.ages) >= total

        wait_until(complete, LONGEST, f"{total:,} rows")
    finally:
        query.stop()
    first = min(now - age / 1e3 for now, age in ages.ages)
    counted = [age for now, age in ages.ages if now - age / 1e3 >= first + WARM]
    return Latency(percentile(counted, 50), percentile(counted, 99), len(ages.ages) / ages.batches)


def ours(spark: SparkSession, folder: Path, seconds: float) -> Latency:
    place = folder / f"ours-{time.monotonic_ns()}"
    spool = place / "spool"
    reader = spark.readStream.format("aqueduct").option("spool", str(spool))
    reader.options(**{"listen": "127.0.0.1:0", "tls.selfSigned": "true", "lease": "5s"})

    def endpoint() -> str:
        return f"aqueduct://{intake_status(spool, 0, 90)['listen']}"

    return latency(reader.load(), place, endpoint, seconds)


def theirs(spark: SparkSession, kafka: Broker, folder: Path, seconds: float) -> Latency:
    topic = kafka.topic(durable=True, tls=True)
    place = folder / f"kafka-{time.monotonic_ns()}"
    return latency(stream_of(spark, topic), place, lambda: topic, seconds)


def compare(effort: Effort, sheet: Sheet) -> None:
    with (
        work_folder() as folder,
        broker(folder / "kafka") as kafka,
        spark_session(**session_conf()) as spark,
    ):
        ours(spark, folder, 1.0)
        theirs(spark, kafka, folder, 1.0)
        kinds = {
            OURS: partial(ours, spark, folder, effort.seconds),
            KAFKA: partial(theirs, spark, kafka, folder, effort.seconds),
        }
        runs = list(in_turns(kinds, effort, sheet))
    for name in kinds:
        sheet.add(f"send → row, p50, {name}", "ms", [run[name].p50 for run in runs])
        sheet.add(f"send → row, p99, {name}", "ms", [run[name].p99 for run in runs])
        sheet.add(f"rows a batch, {name}", "", [run[name].rows for run in runs])
    for part in ("p50", "p99"):
        over = ratios(runs, OURS, KAFKA, lambda run, part=part: getattr(run, part))
        sheet.add(f"send → row, {part}, ours over Kafka's", "x", over, f"kafka-{part}")


BENCH = Bench(
    "kafka_latency", "send → row at 1,000 a second against Spark's source for Kafka", compare,
    seconds=10.0,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.run()
