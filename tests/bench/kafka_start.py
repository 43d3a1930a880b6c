"""The start of a query: ours beside Spark's source for Kafka.

    python -m tests.bench.kafka_start [--repetitions 5]

In a warm session: from ``start()`` until the first batch is planned, which is when its offsets are
in the checkpoint. Ours launches an intake for it; the broker runs already, so a query that reads
from an intake that runs already is shown too. Then without a session: from ``spark-submit`` until
the first row, for a message that is sent as soon as somebody listens, or is in the topic; ours also
with a PySpark as it is released, without the bytecode that ``aqueduct compile-pyspark`` makes.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
from pyspark.sql import DataFrame, SparkSession

from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.control import status_file
from tests.bench.intakes import IntakeProcess, intake_process
from tests.bench.kafka_broker import Broker, Topic, broker, session_conf
from tests.bench.kafka_rows import stream_of
from tests.bench.kafka_sender import LIBRDKAFKA, send_to_topic
from tests.bench.loads import Load, send
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.queries import SPARK_CONF, Counted, spark_session, work_folder
from tests.bench.sheet import Sheet
from tests.support.waiting import environment, running_intake, wait_until

OURS, STANDING, KAFKA = "ours", "ours, of a running intake", "Kafka"
RELEASED = "ours, PySpark without bytecode"
ONE = Load("1000", 100)
"""What is stored, or sent."""
LONGEST = 120
FIRST_OFFSETS = Path("checkpoint", "offsets", "0")


class Started(NamedTuple):
    """Seconds from ``start()``: the first batch was planned; its rows were reported, without the
    time of its ``addBatch``."""

    planned: float
    rows: float = 0.0


def start(
    frame: DataFrame, place: Path, until: Callable[[Counted], object] | None = None
) -> Started:
    """``until``: what else to wait for before the end; None: for the rows that are stored."""
    clock, begun = time.time(), time.perf_counter()
    query = Counted(frame, place, "0 seconds")
    rows = 0.0
    try:
        offsets = place / FIRST_OFFSETS
        wait_until(lambda: query.rows() >= 0 and offsets.exists(), LONGEST, "the first offsets")
        planned = offsets.stat().st_mtime - clock
        if until is not None:
            wait_until(lambda: until(query), LONGEST, "a query at work")
        else:
            wait_until(lambda: query.rows() >= ONE.count, LONGEST, "the first rows")
            rows = time.perf_counter() - begun
            progress: Any = query.query.recentProgress
            rows -= sum(each["durationMs"].get("addBatch", 0) for each in progress) / 1e3
    finally:
        query.stop()
    return Started(planned, rows)


def ours(spark: SparkSession, folder: Path) -> Started:
    place = folder / f"ours-{time.monotonic_ns()}"
    reader = spark.readStream.format("aqueduct").option("spool", str(place / "spool"))
    reader.options(**{"listen": "127.0.0.1:0", "tls.selfSigned": "true", "lease": "5s"})
    spool = place / "spool"
    return start(reader.load(), place, lambda query: query.rows() >= 0 and running_intake(spool, 0))


def standing(spark: SparkSession, running: IntakeProcess, folder: Path) -> Started:
    place = folder / f"standing-{time.monotonic_ns()}"
    reader = spark.readStream.format("aqueduct").options(**reading_from(running))
    reader.option("cursor", place.name)
    return start(reader.load(), place)


def reading_from(running: IntakeProcess) -> dict[str, str]:
    """Options of a query that reads from an intake that runs."""
    folder = running.spool.parent
    credentials = Credentials.for_spool(folder)
    (folder / "authority.pem").write_bytes(credentials.authority)
    (folder / "token").write_text(credentials.token)
    status = status_file.read(running.spool)
    assert status is not None
    return {
        "intakes": status["flight"],
        "tls.caFile": str(folder / "authority.pem"),
        "auth.tokenFile": str(folder / "token"),
    }


def theirs(spark: SparkSession, topic: Topic, folder: Path) -> Started:
    place = folder / f"kafka-{time.monotonic_ns()}"
    return start(stream_of(spark, topic), place)


SCRIPT = """
import sys
from pyspark.sql import SparkSession

kind, checkpoint, *options = sys.argv[1:]
spark = SparkSession.builder.appName("bench").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
reader = spark.readStream.format(kind)
reader.options(**dict(option.split("=", 1) for option in options))

def first(frame, batch):
    if frame.take(1):
        print("a row", flush=True)

writer = reader.load().writeStream.foreachBatch(first)
writer.option("checkpointLocation", checkpoint).start().awaitTermination()
"""


def spark_as_released(folder: Path) -> Path:
    """A home of Spark that is ours but for the archives of PySpark, which have no bytecode."""
    ours, home = Path(pyspark.__file__).parent, folder / "released"
    lib = home / "python" / "lib"
    lib.mkdir(parents=True)
    for each in ours.iterdir():
        if each.name != "python":
            (home / each.name).symlink_to(each)
    for archive in (ours / "python" / "lib").glob("*.zip"):
        with zipfile.ZipFile(archive) as old, zipfile.ZipFile(lib / archive.name, "w") as new:
            for name in old.namelist():
                if not name.endswith(".pyc"):
                    new.writestr(name, old.read(name), zipfile.ZIP_DEFLATED)
    return home


def submitted(
    folder: Path,
    kind: str,
    options: dict[str, str],
    conf: dict[str, str],
    act: Callable[[], None],
    home: Path | None = None,
) -> float:
    """Seconds from ``spark-submit``, that of a home of Spark, until its first row; ``act`` is
    called meanwhile."""
    folder.mkdir(parents=True)
    script = folder / "first_row.py"
    script.write_text(SCRIPT)
    words = ["spark-submit", "--master", "local[2]"]
    for key, value in {**SPARK_CONF, **conf}.items():
        words += ["--conf", f"{key}={value}"]
    words += [str(script), kind, str(folder / "checkpoint")]
    words += [f"{key}={value}" for key, value in options.items()]
    spark_home = {} if home is None else {"SPARK_HOME": str(home)}
    begun = time.perf_counter()
    process = subprocess.Popen(
        words,
        env=environment() | spark_home,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        act()
        assert process.stdout is not None
        if "a row" not in process.stdout.readline():
            raise RuntimeError(f"spark-submit of {kind} ended with {process.wait()}")
        return time.perf_counter() - begun
    finally:
        process.terminate()
        process.wait(60)
        if process.stdout is not None:
            process.stdout.close()


def submitted_ours(folder: Path, home: Path | None = None) -> float:
    place = folder / f"submit-{time.monotonic_ns()}"
    spool = place / "spool"
    options = {"listen": "127.0.0.1:0", "tls.selfSigned": "true", "lease": "5s"}

    def send_soon() -> None:
        status = wait_until(lambda: running_intake(spool, 0), LONGEST, "an intake")
        asyncio.run(send(f"aqueduct://{status['listen']}", ONE))

    return submitted(place, "aqueduct", {**options, "spool": str(spool)}, {}, send_soon, home)


def submitted_kafka(folder: Path, topic: Topic) -> float:
    place = folder / f"submit-{time.monotonic_ns()}"
    options = {**topic.spark_options, "subscribe": topic.name, "startingOffsets": "earliest"}
    return submitted(place, "kafka", options, dict(session_conf()), lambda: None)


def compare(effort: Effort, sheet: Sheet) -> None:
    with work_folder() as folder, broker(folder / "kafka") as kafka:
        topic = kafka.topic(durable=True, tls=True)
        send_to_topic(LIBRDKAFKA, topic, ONE)
        warm_starts(kafka, topic, folder, effort, sheet)
        kinds = {
            OURS: partial(submitted_ours, folder),
            RELEASED: partial(submitted_ours, folder, spark_as_released(folder)),
            KAFKA: partial(submitted_kafka, folder, topic),
        }
        runs = list(in_turns(kinds, effort, sheet))
    for name in kinds:
        sheet.add(f"spark-submit → first row, {name}", "s", [run[name] for run in runs])
    for name, goal in ((OURS, "kafka-submit"), (RELEASED, "")):
        over = ratios(runs, name, KAFKA, lambda seconds: seconds)
        sheet.add(f"spark-submit → first row, {name} over Kafka's", "x", over, goal)


def warm_starts(kafka: Broker, topic: Topic, folder: Path, effort: Effort, sheet: Sheet) -> None:
    with (
        spark_session(**session_conf()) as spark,
        intake_process(folder) as running,
    ):
        asyncio.run(send(running.endpoint, ONE))
        kinds = {
            OURS: partial(ours, spark, folder),
            STANDING: partial(standing, spark, running, folder),
            KAFKA: partial(theirs, spark, topic, folder),
        }
        for kind in kinds.values():
            kind()  # warm
        runs = list(in_turns(kinds, effort, sheet))
    for name in kinds:
        planned = [run[name].planned for run in runs]
        sheet.add(f"start() → first batch planned, {name}", "s", planned)
    for name in (OURS, STANDING):
        over = ratios(runs, name, KAFKA, lambda run: run.planned)
        sheet.add(f"start() → first batch planned, {name} over Kafka's", "x", over, "kafka-start")
    for name in (STANDING, KAFKA):
        rows = [run[name].rows for run in runs]
        sheet.add(f"start() → first rows without addBatch, {name}", "s", rows)
    over = ratios(runs, STANDING, KAFKA, lambda run: run.rows)
    sheet.add(f"start() → first rows without addBatch, {STANDING} over Kafka's", "x", over)


BENCH = Bench(
    "kafka_start", "the start of a query against Spark's source for Kafka", compare, repetitions=5
)

if __name__ == "__main__":
    BENCH.run()
