"""The hops together: wire → durable and wire → DataFrame, against a server that only counts.

    python -m tests.bench.pipeline [--repetitions 5] [--seconds 4]

Each repetition runs, in opposite order by turns: stock ``aioquic.asyncio`` counting the bytes of
one stream; an intake until every message is acked, and so on disk, in datagrams as large as the
path carries and once more in datagrams of the size that stock aioquic gets; a running Spark query
until every message is a row. Messages are of one size, or of many at random. Wall times share the
processors among sender, intake and Spark, which the counting server and its sender have for
themselves; CPU is that of the receiving processes, the one that waits for the disk included.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from tests.bench.intakes import intake_process
from tests.bench.loads import MIXED, Load, load_for, send_from_elsewhere
from tests.bench.measuring import Bench, CpuMeter, Effort, in_turns, ratios
from tests.bench.queries import OurQuery, spark_meter, spark_session, work_folder
from tests.bench.receivers import STOCK, measure
from tests.bench.sheet import Sheet

DURABLE, ROWS = "wire → durable", "wire → DataFrame"
DATAGRAM = 1_200
"""What stock aioquic sends and receives; it looks for nothing larger."""
SMALL = f"wire → durable in datagrams of {DATAGRAM:,} bytes"
STOCK_SHARE = 0.5
"""Of the bytes that the others get: the counting server is the slowest of them."""


class Run(NamedTuple):
    """Payload bytes and messages; seconds; CPU seconds of what receives, and of the sender."""

    total: int
    count: int
    wall: float
    cpu: float
    sender_cpu: float
    drops: int

    @property
    def speed(self) -> float:
        """Bytes a second."""
        return self.total / self.wall

    @property
    def work(self) -> float:
        """Bytes a CPU second of what receives."""
        return self.total / self.cpu


def counting(load: Load) -> Run:
    total = int(load.total * STOCK_SHARE)
    run = measure(STOCK, total, DATAGRAM)
    return Run(total, int(load.count * STOCK_SHARE), run.wall, run.cpu, 0.0, run.drops)


def durable(load: Load, datagram: int = 0) -> Run:
    with work_folder() as folder, intake_process(folder) as running:
        meter = CpuMeter(running.pid)
        sent = send_from_elsewhere(running.endpoint, load, meter.look, datagram)
        return Run(load.total, load.count, sent.wall, meter.used(), sent.cpu, running.drops)


def to_rows(spark: SparkSession, query: OurQuery, load: Load) -> Run:
    meter, drops = spark_meter(spark, query), query.drops
    sent = send_from_elsewhere(query.endpoint, load, query.rows)
    query.wait(load.count + load.channels)
    wall = time.monotonic() - sent.begun
    return Run(load.total, load.count, wall, meter.used(), sent.cpu, query.drops - drops)


def compare(effort: Effort, sheet: Sheet) -> None:
    with spark_session() as spark:
        for kind in effort.kinds:
            with work_folder() as folder:
                block(spark, folder, kind, effort, sheet)


def block(spark: SparkSession, folder: Path, kind: str, effort: Effort, sheet: Sheet) -> None:
    """The figures of one kind of load."""
    load = load_for(kind, effort.seconds)
    title = f"{int(kind):,} B" if kind != MIXED else "mixed sizes"
    query = OurQuery(spark, folder)
    try:
        query.run(load_for(kind, 0.5))  # warm the workers
        runs = list(
            in_turns(
                {
                    STOCK: partial(counting, load),
                    DURABLE: partial(durable, load),
                    SMALL: partial(durable, load, DATAGRAM),
                    ROWS: partial(to_rows, spark, query, load),
                },
                effort,
                sheet,
            )
        )
    finally:
        query.stop()
    goal = "durable-mixed" if kind == MIXED else "durable"
    for name, key in ((DURABLE, goal), (SMALL, goal), (ROWS, "G6")):
        walls = ratios(runs, name, STOCK, lambda run: run.speed)
        sheet.add(f"{title}: {name} over stock, wall", "x", walls, key)
    for name in (DURABLE, SMALL, ROWS):
        cpus = ratios(runs, name, STOCK, lambda run: run.work)
        sheet.add(f"{title}: {name} over stock, receivers' CPU", "x", cpus)
    for name in (STOCK, DURABLE, SMALL, ROWS):
        sheet.add(f"{title}: {name}", "MB/s", [run[name].speed / 1e6 for run in runs])
    for name in (DURABLE, SMALL, ROWS):
        sheet.add(
            f"{title}: {name}, receivers' CPU a message",
            "µs",
            [run[name].cpu * 1e6 / run[name].count for run in runs],
        )
    sheet.add(
        f"{title}: sender's CPU a message",
        "µs",
        [run[DURABLE].sender_cpu * 1e6 / load.count for run in runs],
    )
    sheet.add(f"{title}: dropped", "", [run[DURABLE].drops + run[ROWS].drops for run in runs])


BENCH = Bench(
    "pipeline", "wire → durable → DataFrame against stock aioquic counting bytes", compare
)

if __name__ == "__main__":
    BENCH.run()
