"""The trigger of a query against what it costs: how old rows are, and how many a second it takes.

    python -m tests.bench.triggers [--repetitions 3] [--seconds 10]

For each trigger a query in a warm session, as conf/low-latency.conf and conf/throughput.conf set
it: first at 1,000 messages of 100 bytes a second, where it is told how old rows are when a batch
has them; then 1,000-byte messages as fast as they come, where it is told how many a second become
rows, and what a row costs. At the end rows of a session that is as Spark comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from tests.bench.measuring import Bench, Effort, in_turns
from tests.bench.queries import (
    BACK_TO_BACK,
    PLAIN_CONF,
    OurQuery,
    bare_session,
    spark_session,
    work_folder,
)
from tests.bench.row_ages import RowAges, our_ages
from tests.bench.sheet import Sheet
from tests.bench.sustained import Stretch, stream

RATE = 1_000.0
WARM = 1.0
"""Seconds of a load before the one that is measured."""
NONE, AS_SPARK_COMES = "none", "none, with Spark's own settings"
TRIGGERS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "none, minOffsetsPerTrigger=1": (BACK_TO_BACK, {"minOffsetsPerTrigger": "1"}),
    NONE: (BACK_TO_BACK, {}),
    "500 ms": ("500 milliseconds", {}),
    "1 s": ("1 second", {}),
    "5 s": ("5 seconds", {}),
}
"""Trigger and options, by what a reader calls them."""


class Cost(NamedTuple):
    """At a steady rate, and under load."""

    ages: RowAges
    load: Stretch


def cost(
    spark: SparkSession, folder: Path, seconds: float, trigger: str, options: Mapping[str, str]
) -> Cost:
    place = folder / f"query-{time.monotonic_ns()}"
    ages = our_ages(spark, place / "steady", RATE, seconds, trigger, options)
    query = OurQuery(spark, place / "load", trigger, options)
    try:
        stream(spark, query, WARM)
        return Cost(ages, stream(spark, query, seconds))
    finally:
        query.stop()


def kinds(spark: SparkSession, folder: Path, seconds: float) -> dict[str, Callable[[], Cost]]:
    return {
        name: partial(cost, spark, folder, seconds, trigger, options)
        for name, (trigger, options) in TRIGGERS.items()
    }


def compare(effort: Effort, sheet: Sheet) -> None:
    with work_folder() as folder:
        with spark_session() as spark:
            cost(spark, folder, WARM, *TRIGGERS[NONE])
            runs = list(in_turns(kinds(spark, folder, effort.seconds), effort, sheet))
        for name in TRIGGERS:
            tell(name, [run[name] for run in runs], sheet)
        with bare_session(**PLAIN_CONF) as spark:
            cost(spark, folder, WARM, *TRIGGERS[NONE])
            once = partial(cost, spark, folder, effort.seconds, *TRIGGERS[NONE])
            tell(AS_SPARK_COMES, [once() for _ in range(effort.repetitions)], sheet)


def tell(name: str, runs: list[Cost], sheet: Sheet) -> None:
    sheet.add(f"{name}: send → row, p50", "ms", [run.ages.p50 for run in runs])
    sheet.add(f"{name}: send → row, p99", "ms", [run.ages.p99 for run in runs])
    sheet.add(f"{name}: rows", "rows/s", [run.load.count / run.load.wall for run in runs])
    batches = [run.load.count / max(1, run.load.batches) for run in runs]
    sheet.add(f"{name}: rows a batch under load", "", batches)
    per_row = [run.load.cpu * 1e6 / run.load.count for run in runs]
    sheet.add(f"{name}: CPU a row, all but the sender", "µs", per_row)


BENCH = Bench(
    "triggers", "the trigger of a query: age of rows, rows a second", compare,
    repetitions=3, seconds=10.0,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.run()
