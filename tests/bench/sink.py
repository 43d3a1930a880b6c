"""The sink: DataFrame → wire → acked, and DataFrame → DataFrame with Arrow payloads.

    python -m tests.bench.sink [--repetitions 3] [--scale 1.0]

Each repetition writes a frame to an intake until every row is acked, and so on disk; then, as
record batches, until every row is a row of a running query again. The yardstick runs in between:
the same frame into Spark's ``noop`` sink, which says what making the rows costs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.bench.pipeline import intake, session
from tests.bench.transport import MEGABYTE, calibration
from tests.support.processes import cpu_seconds
from tests.support.waiting import intake_status, wait_until

LOADS = {100: 400_000, 1000: 80_000}
ARROW_ROWS = 1_000_000
TASKS = 2


def rows(spark: SparkSession, size: int, count: int) -> DataFrame:
    """``count`` values of ``size`` bytes, cheap to make."""
    digits = f.lpad(f.col("id").cast("string"), size, "x")
    return spark.range(0, count, 1, TASKS).select(digits.cast("binary").alias("value"))


def write(frame: DataFrame, endpoint: str, **options: str) -> float:
    """Seconds until all is acked."""
    begun = time.perf_counter()
    writer = frame.write.format("aqueduct").mode("append").option("endpoint", endpoint)
    writer.option("tls.insecure", "true").options(**options).save()
    return time.perf_counter() - begun


def nowhere(frame: DataFrame) -> float:
    begun = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun


def acked(spark: SparkSession, folder: Path, repetitions: int, scale: float) -> None:
    print(
        f"{'DataFrame → acked':24}{'rows/s':>12}{'MB/s':>8}{'noop rows/s':>14}{'intake CPU s':>14}"
    )
    for size, most in LOADS.items():
        count = int(most * scale)
        for name, options in (
            ("", {}),
            (", headers on rows", {"idempotence": "headers"}),
        ):
            walls, plain, used = [], [], []
            amount = count if not options else count // 8
            frame = rows(spark, size, amount)
            with intake(folder / f"acked-{size}-{len(name)}") as (endpoint, pid):
                write(rows(spark, size, 1_000), endpoint)
                for _ in range(repetitions):
                    before = cpu_seconds(pid)
                    plain.append(amount / nowhere(frame))
                    walls.append(amount / write(frame, endpoint, **options))
                    used.append(cpu_seconds(pid) - before)
            rate = statistics.median(walls)
            print(
                f"{f'{size} B{name}':24}{rate:12,.0f}{rate * size / MEGABYTE:8.1f}"
                f"{statistics.median(plain):14,.0f}{statistics.median(used):14.2f}",
                flush=True,
            )


def columnar(spark: SparkSession, folder: Path, repetitions: int, scale: float) -> None:
    """DataFrame → DataFrame: record batches go through whole."""
    count = int(ARROW_ROWS * scale)
    sent = spark.range(0, count, 1, TASKS).select(
        "id", (f.col("id") / 3).alias("reading"), f.concat(f.lit("row "), "id").alias("name")
    )
    spool = folder / "columnar"
    reader = spark.readStream.format("aqueduct").schema("id LONG, reading DOUBLE, name STRING")
    query = (
        reader.options(listen="127.0.0.1:0", spool=str(spool), payloadFormat="arrow", lease="5s")
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="500 milliseconds")
        .start()
    )
    seen: dict[int, int] = {}

    def total() -> int:
        seen.update((p["batchId"], p["numInputRows"]) for p in query.recentProgress)
        return sum(seen.values())

    def reached(target: int) -> bool:
        return total() >= target

    try:
        endpoint = f"aqueduct://{intake_status(spool, 0, 90)['listen']}"
        write(sent.limit(1_000), endpoint, payloadFormat="arrow")
        wait_until(lambda: total() >= 1_000, 60, "the first rows")
        to_ack, to_row = [], []
        for repetition in range(repetitions):
            target = 1_000 + count * (repetition + 1)
            begun = time.perf_counter()
            to_ack.append(count / write(sent, endpoint, payloadFormat="arrow"))
            wait_until(partial(reached, target), 120, "all rows")
            to_row.append(count / (time.perf_counter() - begun))
    finally:
        query.stop()
    print(f"\n{'payloadFormat=arrow':24}{'rows/s':>12}")
    print(f"{'DataFrame → acked':24}{statistics.median(to_ack):12,.0f}")
    print(f"{'DataFrame → DataFrame':24}{statistics.median(to_row):12,.0f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows of each run")
    args = parser.parse_args()
    spark = session()
    print(f"calibration {calibration():.0f} ns, {args.repetitions} repetitions, medians\n")
    with tempfile.TemporaryDirectory(prefix="aqueduct-bench-") as folder:
        acked(spark, Path(folder), args.repetitions, args.scale)
        columnar(spark, Path(folder), args.repetitions, args.scale)
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
