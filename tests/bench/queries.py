"""A Spark session for benches, and streaming queries into nowhere whose rows are counted."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.bench.loads import Load, send_from_elsewhere
from tests.bench.measuring import CpuMeter, dropped
from tests.bench.rows import KEPT_REPORTS, RowWatch
from tests.support.waiting import running_intake, wait_until

TRIGGER = "500 milliseconds"
BACK_TO_BACK = "0 seconds"
"""Spark's default: each batch as soon as the one before is over."""
LONGEST = 600
"""Seconds that rows are waited for, at most."""
LAUNCH = 90
"""Seconds that an intake is waited for, at most."""
PLAIN_CONF = {
    "spark.sql.streaming.numRecentProgressUpdates": str(KEPT_REPORTS),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}
"""For the figures; a micro-batch costs what it does without."""
SPARK_CONF = {
    **PLAIN_CONF,
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""With what conf/ has to make a micro-batch cheaper."""


class Counted:
    """A running stream into nowhere that counts its rows."""

    def __init__(
        self, frame: DataFrame, folder: Path, trigger: str = TRIGGER, rows_before: int = 0
    ) -> None:
        writer: Any = frame.writeStream.format("noop")
        self.query = (
            writer.trigger(processingTime=trigger)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        self._watch = RowWatch(self.query)
        self.expected = rows_before

    @property
    def batches(self) -> int:
        return self._watch.batches

    def rows(self) -> int:
        return self._watch.rows()

    def wait(self, rows: int) -> None:
        """Until ``rows`` more than were waited for so far are there."""
        self.expected += rows
        wait_until(lambda: self.rows() >= self.expected, LONGEST, f"{rows:,} more rows")

    def stop(self) -> None:
        self.query.stop()


class OurQuery(Counted):
    """A stream of a format with an intake of its own; ``format`` is also the scheme of URLs, unless
    option ``listen`` has another one."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        trigger: str = TRIGGER,
        options: Mapping[str, str] | None = None,
        schema: str | None = None,
        format: str = "aqueduct",
    ) -> None:
        spool = folder / "spool"
        reader = spark.readStream.format(format).options(
            **{"listen": "127.0.0.1:0", "tls.selfSigned": "true", "spool": str(spool),
               "lease": "5s", **(options or {})}
        )  # fmt: skip
        frame = (reader.schema(schema) if schema else reader).load()
        super().__init__(frame, folder, trigger)
        status = wait_until(lambda: self._launched(spool), LAUNCH, "an intake of the query")
        scheme, separator, _ = (options or {}).get("listen", "").partition("://")
        self.endpoint = f"{scheme if separator else format}://{status['listen']}"
        self.intake: int = status["pid"]
        self._port = int(status["listen"].rpartition(":")[2])

    def _launched(self, spool: Path) -> dict[str, Any] | None:
        self.rows()  # a query that has failed launches nothing any more
        return running_intake(spool, 0)

    @property
    def drops(self) -> int:
        return dropped(self._port)

    def run(self, load: Load) -> float:
        """Seconds from the sender's first message until the last one is a row."""
        sent = send_from_elsewhere(self.endpoint, load, self.rows)
        self.wait(load.count + load.channels)  # and the messages that bring the channels
        return time.monotonic() - sent.begun


def jvm_of(spark: SparkSession) -> int:
    """The process of the driver's JVM."""
    context: Any = spark.sparkContext
    return int(context._jvm.java.lang.ProcessHandle.current().pid())


def spark_meter(spark: SparkSession, query: OurQuery) -> CpuMeter:
    """Of the JVM with its workers and planners, and of the intake with its sync process."""
    return CpuMeter(jvm_of(spark), query.intake)


@contextmanager
def spark_session(**conf: str) -> Iterator[SparkSession]:
    """With ``SPARK_CONF``, and more."""
    with bare_session(**{**SPARK_CONF, **conf}) as spark:
        yield spark


@contextmanager
def bare_session(**conf: str) -> Iterator[SparkSession]:
    builder: Any = SparkSession.builder.master("local[2]").appName("aqueduct-bench")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    try:
        spark.sparkContext.setLogLevel("OFF")
        yield spark
    finally:
        spark.stop()


@contextmanager
def work_folder() -> Iterator[Path]:
    """A folder that is gone afterwards, with what intakes still write there."""
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)
