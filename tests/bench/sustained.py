"""Wire → DataFrame for a minute, over a stock server that only counts bytes.

    python -m tests.bench.sustained [--repetitions 5] [--seconds 60]

A producer sends 1,000-byte messages on a few channels for so long, into a query that has run
before, so that the JVM is warm; the clock runs until the last message is a row. The counting server
runs for a tenth of that beside it in each repetition.
"""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

from pyspark.sql import SparkSession

from tests.bench.loads import load_for, send_from_elsewhere
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.queries import OurQuery, spark_meter, spark_session, work_folder
from tests.bench.receivers import STOCK, measure
from tests.bench.sheet import Sheet

KIND = "1000"
CHANNELS = 4
ROWS = "wire → DataFrame"
PORTION = 5.0
"""Seconds of load that one sender is told to send, nominally; the next follows at once."""
DATAGRAM = 1_200
STOCK_SHARE = 0.1


class Stretch(NamedTuple):
    """Payload bytes, seconds, messages, CPU seconds of all processes but the sender, batches."""

    total: int
    wall: float
    count: int = 0
    cpu: float = 0.0
    batches: int = 0
    drops: int = 0

    @property
    def speed(self) -> float:
        return self.total / self.wall


def stream(spark: SparkSession, query: OurQuery, seconds: float) -> Stretch:
    """Portions until the time is over; a new one is under way while Spark reads the last."""
    load = load_for(KIND, min(PORTION, seconds), CHANNELS)
    meter, batches, drops = spark_meter(spark, query), query.batches, query.drops
    begun = time.perf_counter()
    portions = 0
    while not portions or time.perf_counter() - begun < seconds:
        send_from_elsewhere(query.endpoint, load, query.rows)
        portions += 1
    query.wait(portions * (load.count + load.channels))
    return Stretch(
        portions * load.total,
        time.perf_counter() - begun,
        portions * load.count,
        meter.used(),
        query.batches - batches,
        query.drops - drops,
    )


def counting(seconds: float) -> Stretch:
    total = load_for(KIND, seconds * STOCK_SHARE).total
    return Stretch(total, measure(STOCK, total, DATAGRAM).wall)


def compare(effort: Effort, sheet: Sheet) -> None:
    with spark_session() as spark, work_folder() as folder:
        query = OurQuery(spark, folder)
        try:
            stream(spark, query, min(10.0, effort.seconds))
            kinds = {
                STOCK: partial(counting, effort.seconds),
                ROWS: partial(stream, spark, query, effort.seconds),
            }
            runs = list(in_turns(kinds, effort, sheet))
        finally:
            query.stop()
    ours = [run[ROWS] for run in runs]
    sheet.notes.append(
        f"The counting server gets datagrams of {DATAGRAM:,} bytes, as stock aioquic sends them, "
        "and the query such as the path is found to carry."
    )
    over = ratios(runs, ROWS, STOCK, lambda run: run.speed)
    sheet.add("wire → DataFrame over stock, wall", "x", over, "sustained")
    sheet.add(ROWS, "MB/s", [run.speed / 1e6 for run in ours])
    sheet.add(STOCK, "MB/s", [run[STOCK].speed / 1e6 for run in runs])
    sheet.add("CPU a message, all but the sender", "µs", [r.cpu * 1e6 / r.count for r in ours])
    sheet.add("rows a batch", "", [run.count / max(1, run.batches) for run in ours])
    sheet.add("dropped", "", [run.drops for run in ours])


BENCH = Bench(
    "sustained",
    "wire → DataFrame for a minute against stock aioquic counting",
    compare,
    seconds=60.0,
)

if __name__ == "__main__":
    BENCH.run()
