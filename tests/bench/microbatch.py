"""What a micro-batch of one row costs, and a query's start: ``python -m tests.bench.microbatch``.

A warm session (local[2], noop sink, as conf/ sets it) starts queries one after another, each with
a spool and a checkpoint of its own. Then one of them gets single messages, each sent when the batch
of the one before is over. What is counted of a batch is processor time of the worker, the planner,
the intake and the JVM, and the wall time of its trigger; of a start, the wall time from ``start()``
to the first batch planned, which is without the ``addBatch`` that launches the intake.

    python -m tests.bench.microbatch [--repetitions 5]
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.bench.measuring import Bench, Effort
from tests.bench.rows import KEPT_REPORTS, RowWatch
from tests.bench.sheet import Sheet
from tests.support.processes import children, command

STARTS, WARM, BATCHES = 5, 10, 40
"""Starts that are measured; batches before those that are, and those."""

PATIENCE = 60.0
"""Seconds for anything that is bound to happen."""

SPARK_CONF = {
    "spark.sql.streaming.numRecentProgressUpdates": str(KEPT_REPORTS),
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}

TICK = 1000.0 / os.sysconf("SC_CLK_TCK")
"""Milliseconds of the unit in which the system counts processor time."""


class Processes:
    """Processor time, by what the processes are for."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm

    def workers(self) -> list[int]:
        """Those that were forked to run tasks."""
        daemons = [pid for pid in children(self._jvm) if "pyspark.worker" in command(pid)]
        return [worker for daemon in daemons for worker in children(daemon)]

    def planners(self) -> list[int]:
        return [p for p in children(self._jvm) if "python_streaming_source_runner" in command(p)]

    def used(self, intake: int) -> dict[str, float]:
        return {
            "worker": sum(map(milliseconds, self.workers())),
            "planner": sum(map(milliseconds, self.planners())),
            "intake": milliseconds(intake),
            "jvm": milliseconds(self._jvm),
        }


def milliseconds(pid: int) -> float:
    """Processor time that a process has used; 0.0 for one that is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) * TICK


class Session:
    """One Spark session and its queries."""

    def __init__(self, home: Path) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").appName("microbatch")
        for key, value in SPARK_CONF.items():
            builder = builder.config(key, value)
        self._spark = builder.getOrCreate()
        self._home = home
        self._queries = 0
        self.processes = Processes(self._spark._jvm.ProcessHandle.current().pid())

    @contextmanager
    def query(self) -> Iterator[Query]:
        self._queries += 1
        home = self._home / f"query-{self._queries}"
        frame = (
            self._spark.readStream.format("aqueduct")
            .option("listen", "127.0.0.1:0")
            .option("tls.selfSigned", "true")
            .option("spool", str(home / "spool"))
            .load()
        )
        writer = frame.writeStream.format("noop").option("checkpointLocation", f"{home}/checkpoint")
        began = time.time()
        started = Query(writer.start(), home, began)
        try:
            yield started
        finally:
            started.running.stop()

    def stop(self) -> None:
        self._spark.stop()


class Query:
    def __init__(self, running: Any, home: Path, began: float) -> None:
        self.running = running
        self._home = home
        self._began = began
        self._watch = RowWatch(running)

    def planned(self) -> float:
        """Milliseconds from ``start()`` to the end of the first trigger, but for ``addBatch``."""
        first = until(lambda: self.running.recentProgress, "a batch")[0]
        triggered = datetime.fromisoformat(first["timestamp"]).timestamp()
        durations = first["durationMs"]
        return (
            1000.0 * (triggered - self._began)
            + durations["triggerExecution"]
            - durations["addBatch"]
        )

    def intake(self) -> dict[str, Any]:
        file = self._home / "spool" / "intake-0" / "status.json"

        def status() -> dict[str, Any] | None:
            try:
                found = json.loads(file.read_text())
            except (OSError, ValueError):
                return None
            return found if found.get("listen") else None

        return until(status, "an intake")

    def rows(self) -> int:
        """Rows of all batches that are over. Raises QueryFailed when the query has ended."""
        return self._watch.rows()

    def triggers(self) -> list[float]:
        """Milliseconds of those with rows, of the newest ones."""
        return [
            float(progress["durationMs"]["triggerExecution"])
            for progress in self.running.recentProgress
            if progress["numInputRows"]
        ]


def until(probe: Any, what: str) -> Any:
    limit = time.monotonic() + PATIENCE
    while not (found := probe()):
        if time.monotonic() > limit:
            raise TimeoutError(f"{what} did not come")
        time.sleep(0.01)
    return found


async def one_by_one(query: Query, processes: Processes) -> dict[str, float]:
    """Processor time of a batch, by kind of process."""
    from aqueduct_core.aio.connect import connect
    from aqueduct_core.aio.halves import channel
    from aqueduct_core.transport.tls.credentials import ClientTls

    intake = query.intake()

    async def over(rows: int) -> None:
        limit = time.monotonic() + PATIENCE
        while query.rows() < rows:
            if time.monotonic() > limit:
                raise TimeoutError("a row did not come")
            await asyncio.sleep(0.02)

    used: dict[str, float] = {}
    async with connect(f"aqueduct://{intake['listen']}", tls=ClientTls(insecure=True)) as link:
        sender, receiver = channel("ordered", name="readings")
        await link.entrypoint.send(b"", attach=receiver)
        await over(1)  # it is a row, too
        for number in range(WARM + BATCHES):
            if number == WARM:
                used = processes.used(intake["pid"])
            await sender.send(b"x" * 100)
            await over(number + 2)
        now = processes.used(intake["pid"])
        await sender.finish()
    return {kind: (now[kind] - used[kind]) / BATCHES for kind in now}


def measure() -> dict[str, float]:
    """Figures of the package that is imported, in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="bench-microbatch-") as name:
        session = Session(Path(name))
        try:
            starts = []
            for _ in range(STARTS + 1):
                with session.query() as query:
                    starts.append(query.planned())
            with session.query() as query:
                query.planned()
                figures = asyncio.run(one_by_one(query, session.processes))
                figures["trigger"] = statistics.median(query.triggers()[-BATCHES:])
            figures["start"] = statistics.median(starts[1:])
        finally:
            session.stop()
    return figures


def compare(effort: Effort, sheet: Sheet) -> None:
    runs = []
    for _ in range(effort.repetitions):
        sheet.calibrate()
        runs.append(measure())
    for kind, goal in (("worker", "worker"), ("planner", ""), ("intake", ""), ("jvm", "")):
        name = f"a batch of one row: {kind}'s CPU"
        sheet.add(name, "ms", [run[kind] for run in runs], goal)
    sheet.add("a batch of one row: trigger", "ms", [run["trigger"] for run in runs])
    sheet.add("start() → first batch planned", "ms", [run["start"] for run in runs])


BENCH = Bench("microbatch", "what a micro-batch of one row costs, and a query's start", compare)

if __name__ == "__main__":
    BENCH.run()
