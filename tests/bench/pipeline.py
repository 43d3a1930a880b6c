"""The hops together: wire → durable and wire → DataFrame, against a server that only counts.

    python -m tests.bench.pipeline [--repetitions 3] [--scale 1.0] [--sizes 100,1000,65536]

Each repetition runs, one after the other: stock ``aioquic.asyncio`` counting the bytes of one
stream; an intake until every message is acked, and so on disk; a running Spark query until every
message is a row. Figures are ratios inside a repetition, so that they hold when the machine's speed
drifts: of wall time, where the sender, the intake and Spark share the processors that the counting
server and its sender have for themselves; and of the processor time of the receiving process alone.
The calibration loop tells how loaded the machine was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.settings.intake import TlsSettings
from tests.bench.transport import MEGABYTE, calibration, measure
from tests.support.processes import cpu_seconds
from tests.support.waiting import environment, intake_status, wait_until

PAYLOAD_BYTES = {100: 40 * MEGABYTE, 1000: 60 * MEGABYTE, 65536: 80 * MEGABYTE}
BULK = 1000
KINDS = ("stock, counting", "wire → durable", "wire → DataFrame")
GOAL_DATAFRAME = 2.0
TRIGGER = "500 milliseconds"
SPARK_CONF = {
    "spark.sql.streaming.numRecentProgressUpdates": "100000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


class Figures(NamedTuple):
    """Of one run: bytes a second of wall time, and a second of the receiving process's CPU."""

    wall: float
    cpu: float


class Load(NamedTuple):
    """``count`` messages of ``size`` bytes on one ordered channel."""

    size: int
    count: int

    @property
    def total(self) -> int:
        return self.size * self.count


async def send(endpoint: str, load: Load) -> float:
    """Send in this process; seconds from the first message until all are acked."""
    from aqueduct_core.aio import channel, connect
    from aqueduct_core.transport.tls.credentials import ClientTls

    async with connect(endpoint, tls=ClientTls(insecure=True)) as connection:
        sender, receiver = channel(mode="ordered", name="bench")
        await connection.entrypoint.send(b"", attach=receiver)
        bulk = [bytes(load.size)] * min(BULK, load.count)
        begun = time.perf_counter()
        left = load.count
        while left:
            part = bulk[:left]
            await sender.send_many(part)
            left -= len(part)
        await sender.finish()
        return time.perf_counter() - begun


def send_from_elsewhere(endpoint: str, load: Load) -> float:
    """Send in a process of its own; seconds until all messages are acked."""
    module = [sys.executable, "-W", "ignore", "-m", "tests.bench.pipeline"]
    done = subprocess.run(
        [*module, "--send", endpoint, "--load", f"{load.size},{load.count}"],
        env=environment(),
        stdout=subprocess.PIPE,
        check=True,
        timeout=120,
    )
    return float(done.stdout)


@contextmanager
def intake(folder: Path) -> Iterator[tuple[str, int]]:
    """An intake without Spark; its endpoint and process."""
    settings = AqueductIntake(
        spool=str(folder / "intake"),
        credentials=Credentials.for_spool(folder),
        listen="127.0.0.1:0",
        tls=TlsSettings(self_signed=("127.0.0.1",)),
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "aqueduct_core.intake"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(settings.to_json().encode() + b"\n")
        process.stdin.close()
        yield f"aqueduct://{json.loads(process.stdout.readline())['listen']}", process.pid
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


class Query:
    """A running stream into nowhere that counts its rows."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        spool = folder / "spool"
        frame = (
            spark.readStream.format("aqueduct")
            .option("listen", "127.0.0.1:0")
            .option("tls.selfSigned", "true")
            .option("spool", str(spool))
            .option("lease", "5s")
            .load()
        )
        self._query = (
            frame.writeStream.format("noop")
            .trigger(processingTime=TRIGGER)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        self._rows: dict[int, int] = {}
        status = intake_status(spool, 0, seconds=60)
        self.endpoint = f"aqueduct://{status['listen']}"
        self._intake = status["pid"]

    def rows(self) -> int:
        for progress in self._query.recentProgress:
            # an idle trigger is reported, without rows, under the id of the batch that comes next
            rows = max(progress["numInputRows"], self._rows.get(progress["batchId"], 0))
            self._rows[progress["batchId"]] = rows
        return sum(self._rows.values())

    def run(self, load: Load) -> Figures:
        """From the sender's first message until the last one is a row."""
        target = self.rows() + load.count + 1  # and the entrypoint message
        used = cpu_seconds(self._intake)
        acked = send_from_elsewhere(self.endpoint, load)
        begun = time.perf_counter() - acked
        wait_until(lambda: self.rows() >= target, 60, f"{load.count} rows")
        seconds = time.perf_counter() - begun
        return figures(load, seconds, cpu_seconds(self._intake) - used)

    def stop(self) -> None:
        self._query.stop()


def figures(load: Load, wall: float, cpu: float) -> Figures:
    return Figures(load.total / wall, load.total / max(cpu, 0.01))


def counting(load: Load) -> Figures:
    result = measure("stock", load.total, 1200)
    return figures(load, result["wall"], result["cpu"])


def durable(load: Load, folder: Path) -> Figures:
    with intake(folder) as (endpoint, pid):
        used = cpu_seconds(pid)
        wall = send_from_elsewhere(endpoint, load)
        return figures(load, wall, cpu_seconds(pid) - used)


def compare(spark: SparkSession, load: Load, repetitions: int, folder: Path) -> float:
    """Print one block of the table; the median ratio of wire → DataFrame to stock."""
    runs: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    noise = []
    query = Query(spark, folder)
    try:
        query.run(Load(load.size, min(load.count, BULK)))  # warm the workers
        for repetition in range(repetitions):
            noise.append(calibration())
            runs[KINDS[0]].append(counting(load))
            runs[KINDS[1]].append(durable(load, folder / f"repetition-{repetition}"))
            runs[KINDS[2]].append(query.run(load))
    finally:
        query.stop()
    print(
        f"\n{load.count:,} messages of {load.size:,} bytes, {repetitions} repetitions, "
        f"calibration {statistics.median(noise):.0f} [{min(noise):.0f}..{max(noise):.0f}] ns"
    )
    print(f"{'':20}{'messages/s':>12}{'MB/s':>7}{'wall x stock':>22}{'receiver CPU x stock':>24}")
    median = 0.0
    for kind in KINDS:
        rate = statistics.median(run.wall for run in runs[kind])
        pairs = list(zip(runs[kind], runs[KINDS[0]], strict=True))
        walls = [ours.wall / stock.wall for ours, stock in pairs]
        cpus = [ours.cpu / stock.cpu for ours, stock in pairs]
        median = statistics.median(walls)
        print(
            f"{kind:20}{rate / load.size:12,.0f}{rate / MEGABYTE:7.1f}"
            f"{spread(walls):>22}{spread(cpus):>24}"
        )
    return median


def spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]"


def session() -> SparkSession:
    builder: Any = SparkSession.builder.master("local[2]").appName("aqueduct-bench")
    for key, value in SPARK_CONF.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the bytes of each run")
    parser.add_argument("--sizes", default="100,1000,65536")
    parser.add_argument("--send", help=argparse.SUPPRESS)
    parser.add_argument("--load", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.send:
        size, count = map(int, args.load.split(","))
        print(asyncio.run(send(args.send, Load(size, count))))
        return 0
    missed = []
    spark = session()
    for size in map(int, args.sizes.split(",")):
        total = PAYLOAD_BYTES.get(size, 20 * MEGABYTE) * args.scale
        with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as folder:
            load = Load(size, max(1, int(total / size)))
            ratio = compare(spark, load, args.repetitions, Path(folder))
        if ratio < GOAL_DATAFRAME:
            missed.append(f"{size} bytes ({ratio:.2f} of {GOAL_DATAFRAME:.1f})")
    spark.stop()
    print("\ngoal wire → DataFrame: " + ("missed at " + ", ".join(missed) if missed else "met"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
