"""Send → row at 1,000 messages a second: ours beside Spark's source for Kafka.

    python -m tests.bench.kafka_latency [--repetitions 5] [--seconds 10]

Both queries run one at a time in a warm session, each batch as soon as the one before is over, and
collect their rows. Ours is durable and has TLS; so has the topic.
"""

from __future__ import annotations

import time
from functools import partial
from operator import attrgetter
from pathlib import Path

from pyspark.sql import SparkSession

from tests.bench.kafka_broker import Broker, broker, session_conf
from tests.bench.kafka_rows import stream_of
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.queries import spark_session, work_folder
from tests.bench.row_ages import RowAges, our_ages, row_ages
from tests.bench.sheet import Sheet

OURS, KAFKA = "ours", "Kafka, durable, TLS"
RATE = 1_000.0


def ours(spark: SparkSession, folder: Path, seconds: float) -> RowAges:
    return our_ages(spark, folder / f"ours-{time.monotonic_ns()}", RATE, seconds)


def theirs(spark: SparkSession, kafka: Broker, folder: Path, seconds: float) -> RowAges:
    topic = kafka.topic(durable=True, tls=True)
    place = folder / f"kafka-{time.monotonic_ns()}"
    return row_ages(stream_of(spark, topic), place, lambda: topic, RATE, seconds)


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
        over = ratios(runs, OURS, KAFKA, attrgetter(part))
        sheet.add(f"send → row, {part}, ours over Kafka's", "x", over, f"kafka-{part}")


BENCH = Bench(
    "kafka_latency", "send → row at 1,000 a second against Spark's source for Kafka", compare,
    seconds=10.0,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.run()
