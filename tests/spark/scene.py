"""One query with its spool, checkpoint and table, as tests tell its life."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.support.processes import planners_of
from tests.support.waiting import LONG, ended, running_intake, send_signal, wait_until

SPARK_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

PATIENCE = LONG
"""Seconds for anything that is bound to happen, on a busy machine."""


class Scene:
    """Starts the same query again and again, as a restarted driver does."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self.spool = home / "spool"
        self.table = home / "table"
        self.checkpoint = home / "checkpoint"
        self.lease = f"{LONG:.0f}s"
        self.format = "aqueduct"
        self.options: dict[str, str] = {}
        self._queries: list[StreamingQuery] = []
        self._intakes: set[int] = set()

    def frame(self, **options: str) -> DataFrame:
        base = {"spool": str(self.spool), "lease": self.lease}
        given = {key.replace("_", "."): value for key, value in options.items()}
        every = base | self.options | given
        if "endpoint" not in every:
            every = {"listen": "127.0.0.1:0"} | every
        return self.spark.readStream.format(self.format).options(**every).load()

    def start(self, frame: DataFrame | None = None, **trigger: Any) -> StreamingQuery:
        """Append the frame (the plain one by default) to the table."""
        writer = (self.frame() if frame is None else frame).writeStream.format("parquet")
        writer = writer.option("path", str(self.table))
        writer = writer.option("checkpointLocation", str(self.checkpoint))
        return self.follow((writer.trigger(**trigger) if trigger else writer).start())

    def follow(self, query: StreamingQuery) -> StreamingQuery:
        """Have it stopped when the test ends."""
        self._queries.append(query)
        return query

    def intake(self, index: int = 0) -> dict[str, Any]:
        """The status of an intake that runs; fails when a query fails first."""

        def probe() -> dict[str, Any] | None:
            for query in self._queries[-1:]:
                assert query.exception() is None, f"the query ended: {query.exception()}"
            return running_intake(self.spool, index)

        status = wait_until(probe, PATIENCE, f"intake {index}")
        self._intakes.add(status["pid"])
        return status

    def endpoint(self, index: int = 0) -> str:
        return f"{self.format}://{self.intake(index)['listen']}"

    def rows(self) -> DataFrame:
        """The table, without the entrypoint messages that only carried channels."""
        return self.spark.read.parquet(str(self.table)).where("channel != '0'")

    def await_rows(self, query: StreamingQuery, count: int) -> DataFrame:
        """The table once it has ``count`` rows; fails when the query fails."""

        def enough() -> bool:
            if not query.isActive:
                raise AssertionError(f"the query ended: {query.exception()}")
            try:
                return any(self.table.glob("part-*")) and self.rows().count() >= count
            except AnalysisException:
                return False  # files of a batch that is not committed yet, and no others

        wait_until(enough, PATIENCE, f"a table of {count} rows")
        return self.rows()

    def retire(self, index: int = 0) -> None:
        """Have an intake end in good order, as it does when its lease is over.

        Leases of tests are long: one that is short enough to wait for also runs out while a busy
        machine keeps the planner from renewing it, under the producers of the test.
        """
        pid = self.intake(index)["pid"]
        os.kill(pid, signal.SIGTERM)
        ended(pid, PATIENCE)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        ended(pid, PATIENCE)

    def offsets(self) -> list[str]:
        """The end offset of each batch, as Spark wrote it."""
        folder = self.checkpoint / "offsets"
        files = sorted((f for f in folder.iterdir() if f.name.isdigit()), key=lambda f: int(f.name))
        return [file.read_text().splitlines()[-1] for file in files]

    def planners(self, jvm: int | None = None) -> list[int]:
        """The planning processes of a driver: of this one, or of another by its JVM."""
        if jvm is None:
            jvm = self.spark._jvm.ProcessHandle.current().pid()
        return planners_of(jvm)

    def close(self) -> None:
        planners = self.planners()
        for query in self._queries:
            query.stop()
        for path in self.spool.glob("intake-*/status.json"):
            self._intakes.add(json.loads(path.read_text())["pid"])
        for pid in self._intakes:
            send_signal(pid, signal.SIGTERM)
        for pid in [*planners, *self._intakes]:
            ended(pid, PATIENCE)


def error_line(error: BaseException | None) -> str:
    """The one line of ours in what Spark reports."""
    assert error is not None
    lines = [line for line in str(error).splitlines() if "[AQUEDUCT_" in line]
    assert lines, f"no line of ours in: {error}"
    return lines[-1][lines[-1].index("[AQUEDUCT_") :]
