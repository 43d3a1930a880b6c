"""``df.write`` until all is acked: ours beside Spark's sink for Kafka.

    python -m tests.bench.kafka_write [--repetitions 5] [--seconds 4] [--kinds 100,1000]

The same rows from the same two tasks: to an intake, which acks what is on its disk; to a topic that
flushes each append, with TLS as ours; and to one in the page cache, plain.
"""

from __future__ import annotations

import time
from functools import partial

from pyspark.sql import DataFrame

from tests.bench.intakes import intake
from tests.bench.kafka_broker import Topic, broker, session_conf
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.queries import spark_session, work_folder
from tests.bench.sheet import Sheet
from tests.bench.sink import RATES, rows, write

OURS, KAFKA, CACHED = "ours", "Kafka, durable, TLS", "Kafka, page cache, plain"


def to_topic(frame: DataFrame, topic: Topic) -> float:
    """Seconds until all is acked."""
    begun = time.perf_counter()
    writer = frame.write.format("kafka").options(**topic.spark_options)
    writer.option("topic", topic.name).option("kafka.acks", "all").save()
    return time.perf_counter() - begun


def compare(effort: Effort, sheet: Sheet) -> None:
    with (
        work_folder() as folder,
        broker(folder / "kafka") as kafka,
        spark_session(**session_conf()) as spark,
        intake(folder) as (endpoint, _),
    ):
        durable = kafka.topic(durable=True, tls=True)
        cached = kafka.topic(durable=False, tls=False)
        for size in map(int, effort.kinds):
            count = int(RATES[size] * effort.seconds)
            frame, warm = rows(spark, size, count), rows(spark, size, 1_000)
            write(warm, endpoint)
            to_topic(warm, durable)
            to_topic(warm, cached)
            kinds = {
                OURS: partial(write, frame, endpoint),
                KAFKA: partial(to_topic, frame, durable),
                CACHED: partial(to_topic, frame, cached),
            }
            runs = list(in_turns(kinds, effort, sheet))
            for name in kinds:
                sheet.add(f"{size:,} B: {name}", "rows/s", [count / run[name] for run in runs])
            for name, goal in ((KAFKA, "kafka-write"), (CACHED, "")):
                over = ratios(runs, OURS, name, lambda seconds: 1 / seconds)
                sheet.add(f"{size:,} B: df.write, ours over {name}", "x", over, goal)


BENCH = Bench(
    "kafka_write", "df.write until all is acked against Spark's sink for Kafka", compare,
    kinds=("100", "1000"),
)  # fmt: skip

if __name__ == "__main__":
    BENCH.run()
