"""The sink: DataFrame → wire → acked, and DataFrame → DataFrame with Arrow payloads.

    python -m tests.bench.sink [--repetitions 5] [--seconds 4]

Each repetition writes a frame to an intake until every row is acked, and so on disk; then, as
record batches, until every row is a row of a running query again. The yardstick runs in between:
the same frame into Spark's ``noop`` sink, which says what making the rows costs.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.bench.intakes import intake
from tests.bench.measuring import Bench, Effort, in_turns
from tests.bench.queries import OurQuery, spark_session, work_folder
from tests.bench.sheet import Sheet
from tests.support.processes import cpu_seconds

RATES = {100: 100_000, 1000: 20_000}
"""Bytes of a row, and rows a second, about."""
ARROW_RATE = 250_000
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


def acked(spark: SparkSession, folder: Path, effort: Effort, sheet: Sheet) -> None:
    for size, rate in RATES.items():
        for name, options in (("", {}), (", headers on rows", {"idempotence": "headers"})):
            amount = int(rate * effort.seconds) // (8 if options else 1)
            frame = rows(spark, size, amount)
            with intake(folder / f"acked-{size}-{len(name)}") as (endpoint, pid):
                write(rows(spark, size, 1_000), endpoint)
                before = cpu_seconds(pid)
                kinds = {
                    "acked": partial(write, frame, endpoint, **options),
                    "noop": partial(nowhere, frame),
                }
                runs = list(in_turns(kinds, effort, sheet))
                used = (cpu_seconds(pid) - before) / effort.repetitions
            title = f"{size:,} B{name}"
            sheet.add(f"{title}: acked", "rows/s", [amount / run["acked"] for run in runs])
            sheet.add(f"{title}: noop", "rows/s", [amount / run["noop"] for run in runs])
            sheet.add(f"{title}: intake's CPU", "µs/row", [used * 1e6 / amount])


def columnar(spark: SparkSession, folder: Path, effort: Effort, sheet: Sheet) -> None:
    """DataFrame → DataFrame: record batches go through whole."""
    count = int(ARROW_RATE * effort.seconds)
    sent = spark.range(0, count, 1, TASKS).select(
        "id", (f.col("id") / 3).alias("reading"), f.concat(f.lit("row "), "id").alias("name")
    )
    query = OurQuery(
        spark,
        folder,
        options={"payloadFormat": "arrow"},
        schema="id LONG, reading DOUBLE, name STRING",
    )
    try:
        write(sent.limit(1_000), query.endpoint, payloadFormat="arrow")
        query.wait(1_000)
        to_ack, to_row = [], []
        for _ in range(effort.repetitions):
            begun = time.perf_counter()
            to_ack.append(count / write(sent, query.endpoint, payloadFormat="arrow"))
            query.wait(count)
            to_row.append(count / (time.perf_counter() - begun))
    finally:
        query.stop()
    sheet.add("Arrow payloads: DataFrame → acked", "rows/s", to_ack)
    sheet.add("Arrow payloads: DataFrame → DataFrame", "rows/s", to_row)


def compare(effort: Effort, sheet: Sheet) -> None:
    with spark_session() as spark, work_folder() as folder:
        acked(spark, folder, effort, sheet)
        columnar(spark, folder / "columnar", effort, sheet)


BENCH = Bench("sink", "DataFrame → wire → acked, and record batches from frame to frame", compare)

if __name__ == "__main__":
    BENCH.run()
