"""An hour of messages at a steady rate: what they cost, and what is held, at its end and beginning.

    python -m tests.bench.long [--seconds 3600]

A producer sends so many messages a second to an intake whose query runs all the time. The first
minute is the one after the query has warmed up. What is held is the memory that is no file, of the
intake with its sync process and of Spark's Python processes; a JVM grows as far as it may before it
collects, so its memory is shown and has no goal.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from pyspark.sql import SparkSession

from tests.bench.measuring import Bench, CpuMeter, Effort
from tests.bench.queries import OurQuery, jvm_of, spark_session, work_folder
from tests.bench.sheet import Sheet
from tests.bench.steady import steady_sender
from tests.support.processes import command, descendants, private_bytes
from tests.support.waiting import wait_until

RATE = 1_000.0
MINUTE = 60.0
WARM = 20.0
"""Seconds before the first minute."""
LONGEST = 120


class Minute(NamedTuple):
    """Microseconds of CPU a row, and bytes of memory, by who uses them."""

    cpu: dict[str, float]
    memory: dict[str, int]

    @property
    def cost(self) -> float:
        return sum(self.cpu.values())

    @property
    def held(self) -> int:
        """Without the JVM."""
        return sum(size for name, size in self.memory.items() if name != "JVM")


def owners(spark: SparkSession, query: OurQuery) -> dict[str, list[int]]:
    """The processes by who has them."""
    jvm = jvm_of(spark)
    of_intake = [query.intake, *descendants(query.intake)]
    others = [pid for pid in descendants(jvm) if pid not in of_intake]
    python = [pid for pid in others if "python" in command(pid)]
    return {"JVM": [jvm], "Spark's Python": python, "intake": of_intake}


def minute(spark: SparkSession, query: OurQuery, seconds: float) -> Minute:
    """Measure for so long, from one batch to another."""
    jvm = jvm_of(spark)
    meters = {"JVM with its Python": CpuMeter(jvm), "intake": CpuMeter(query.intake)}
    before, ends = query.rows(), time.monotonic() + seconds

    def over() -> bool:
        for meter in meters.values():
            meter.look()
        query.rows()
        return time.monotonic() >= ends

    wait_until(over, seconds + LONGEST, "the end of a minute")
    rows = query.rows() - before
    return Minute(
        {name: meter.used() * 1e6 / rows for name, meter in meters.items()},
        {
            name: sum(private_bytes(pid) for pid in pids)
            for name, pids in owners(spark, query).items()
        },
    )


def compare(effort: Effort, sheet: Sheet) -> None:
    sheet.calibrate()
    part = min(MINUTE, effort.seconds / 3)
    total = effort.seconds + WARM
    with spark_session() as spark, work_folder() as folder:
        query = OurQuery(spark, folder)
        try:
            begun = time.monotonic()
            with steady_sender(query.endpoint, RATE, total):
                wait_until(lambda: query.rows() > RATE * WARM, LONGEST + WARM, "the first rows")
                first = minute(spark, query, part)

                def last_begins() -> bool:
                    query.rows()
                    return time.monotonic() - begun >= total - part

                wait_until(last_begins, total + LONGEST, "the last minute")
                last = minute(spark, query, part)
            query.wait(int(RATE * total) + 1)
        finally:
            query.stop()
    sheet.calibrate()
    for name, each in (("first", first), ("last", last)):
        for who, cost in each.cpu.items():
            sheet.add(f"{name} minute: {who}, CPU a row", "µs", [cost])
        for who, size in each.memory.items():
            sheet.add(f"{name} minute: {who}, memory", "MB", [size / 1e6])
    held, cost = last.held / first.held, last.cost / first.cost
    sheet.add("memory, the last minute over the first", "x", [held], "long-memory")
    sheet.add("CPU a row, the last minute over the first", "x", [cost], "long-cost")
    sheet.notes.append(
        f"{RATE:,.0f} messages of 100 bytes a second for {effort.seconds / 60:g} minutes"
    )


BENCH = Bench(
    "long", "an hour of messages: cost and memory at its end over its beginning", compare,
    repetitions=1, seconds=3600.0,
)  # fmt: skip

if __name__ == "__main__":
    BENCH.run()
