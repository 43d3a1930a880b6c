"""Wire → DataFrame, and stored rows → DataFrame: ours beside Spark's source for Kafka.

    python -m tests.bench.kafka_rows [--repetitions 5] [--seconds 10] [--kinds 1000]

Wire → DataFrame: both queries run in one warm session with the same trigger; a load is sent to the
one and then to the other, until the last message is a row. Ours is durable and has TLS; so has the
topic that is compared, and one in the page cache without TLS is shown beside it. Stored rows: as
many of the same in a spool and in a topic, read by a batch query into Spark's ``noop`` sink.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tests.bench.intakes import intake_process
from tests.bench.kafka_broker import Broker, Topic, broker, session_conf
from tests.bench.kafka_sender import LIBRDKAFKA, send_to_topic
from tests.bench.loads import MIXED, Load, load_for, send_from_elsewhere
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.queries import Counted, OurQuery, spark_session, work_folder
from tests.bench.sheet import Sheet

OURS, KAFKA, CACHED = "ours", "Kafka, durable, TLS", "Kafka, page cache, plain"
CHANNELS = 2


class KafkaQuery(Counted):
    """A stream of a topic into nowhere, from its beginning."""

    def __init__(self, spark: SparkSession, topic: Topic, folder: Path) -> None:
        self.topic = topic
        super().__init__(stream_of(spark, topic), folder)

    def run(self, load: Load) -> float:
        """Seconds from the sender's first message until the last one is a row."""
        sent = send_to_topic(LIBRDKAFKA, self.topic, load, self.rows)
        self.wait(load.count)
        return time.monotonic() - sent.begun


def stream_of(spark: SparkSession, topic: Topic) -> DataFrame:
    reader = spark.readStream.format("kafka").options(**topic.spark_options)
    return reader.options(subscribe=topic.name, startingOffsets="earliest").load()


def wired(
    spark: SparkSession, kafka: Broker, folder: Path, kind: str, effort: Effort, sheet: Sheet
) -> None:
    """The figures of wire → DataFrame."""
    load = load_for(kind, effort.seconds, CHANNELS)
    warm = load_for(kind, 0.5, CHANNELS)
    title = named(kind)

    def ours() -> float:
        return through(OurQuery(spark, folder / f"ours-{time.monotonic_ns()}"))

    def theirs(durable: bool) -> float:
        place = folder / f"kafka-{time.monotonic_ns()}"
        return through(KafkaQuery(spark, kafka.topic(durable=durable, tls=durable), place))

    def through(query: OurQuery | KafkaQuery) -> float:
        """One query at a time, as none but its own triggers are to cost anything."""
        try:
            query.run(warm)
            return query.run(load)
        finally:
            query.stop()

    kinds = {OURS: ours, KAFKA: partial(theirs, True), CACHED: partial(theirs, False)}
    runs = list(in_turns(kinds, effort, sheet))
    for name in kinds:
        sheet.add(
            f"{title}: wire → DataFrame, {name}", "MB/s", [load.total / 1e6 / r[name] for r in runs]
        )
    for name in (KAFKA, CACHED):
        over = ratios(runs, OURS, name, lambda seconds: 1 / seconds)
        goal = "kafka-rows" if (name, kind) == (KAFKA, "1000") else ""
        sheet.add(f"{title}: wire → DataFrame, ours over {name}", "x", over, goal)


def stored(
    spark: SparkSession, kafka: Broker, folder: Path, kind: str, effort: Effort, sheet: Sheet
) -> None:
    """The figures of stored rows → noop."""
    load = load_for(kind, effort.seconds, CHANNELS)
    topic = kafka.topic(durable=False, tls=False)
    send_to_topic(LIBRDKAFKA, topic, load)
    with intake_process(folder / "stored") as running:
        send_from_elsewhere(running.endpoint, load)
        spool = running.spool

    def of_spool() -> DataFrame:
        return spark.read.format("aqueduct").option("spool", str(spool)).load()

    def of_topic() -> DataFrame:
        reader = spark.read.format("kafka").options(**topic.spark_options)
        return reader.option("subscribe", topic.name).load()

    kinds = {}
    for name, frame, more in ((OURS, of_spool, load.channels), (KAFKA, of_topic, 0)):
        found = frame().count()  # which warms it, too
        if found != load.count + more:
            raise RuntimeError(f"{name}: {found:,} rows are stored, of {load.count:,} sent")
        kinds[name] = partial(into_nowhere, frame)
    runs = list(in_turns(kinds, effort, sheet))
    title = named(kind)
    for name in kinds:
        sheet.add(f"{title}: stored → noop, {name}", "rows/s", [load.count / r[name] for r in runs])
    over = ratios(runs, OURS, KAFKA, lambda seconds: 1 / seconds)
    goal = "kafka-stored" if kind == "1000" else ""
    sheet.add(f"{title}: stored → noop, ours over Kafka's backlog", "x", over, goal)


def into_nowhere(frame: Callable[[], DataFrame]) -> float:
    begun = time.perf_counter()
    frame().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def named(kind: str) -> str:
    return f"{int(kind):,} B" if kind != MIXED else "mixed sizes"


def compare(effort: Effort, sheet: Sheet) -> None:
    with (
        work_folder() as folder,
        broker(folder / "kafka") as kafka,
        spark_session(**session_conf()) as spark,
    ):
        for kind in effort.kinds:
            wired(spark, kafka, folder / kind, kind, effort, sheet)
            stored(spark, kafka, folder / kind, kind, effort, sheet)


BENCH = Bench(
    "kafka_rows", "wire and stored rows → DataFrame against Spark's source for Kafka", compare,
    seconds=10.0, kinds=("1000",),
)  # fmt: skip

if __name__ == "__main__":
    BENCH.run()
