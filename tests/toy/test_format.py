"""Rows to a toy's sink, and out of its source: driver, intake, spool, Flight, planner, tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.scene import error_line
from tests.support.waiting import LONG, intake_status, wait_until
from tests.toy.format import ToyDataSource

ROWS = 2_000


@pytest.mark.spark
def test_what_is_written_to_a_toy_is_read_from_it(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(ToyDataSource)
    spool, table = tmp_path / "spool", tmp_path / "table"
    stream = (
        spark.readStream.format("toy")
        .option("listen", "127.0.0.1:0")
        .option("tls.selfSigned", "true")
        .option("spool", str(spool))
        .load()
    )
    query = (
        stream.writeStream.format("parquet")
        .option("path", str(table))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        endpoint = f"toy://{intake_status(spool, 0, LONG)['listen']}"
        rows = spark.range(ROWS, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
        writer = rows.write.format("toy").mode("append").option("endpoint", endpoint)
        writer.option("topic", "numbers").option("tls.insecure", "true").save()

        def read() -> bool:
            assert query.exception() is None, query.exception()
            return table.exists() and spark.read.parquet(str(table)).count() == ROWS

        wait_until(read, LONG, "rows in the table")
    finally:
        query.stop()
    found = spark.read.parquet(str(table))
    assert {int(row.value) for row in found.select("value").collect()} == set(range(ROWS))
    assert {row.topic for row in found.select("topic").distinct().collect()} == {
        "numbers-0",
        "numbers-1",
    }
    assert [row.number for row in found.filter("topic = 'numbers-0'").orderBy("number").collect()]
    events = spark.read.format("toy").option("spool", str(spool)).option("view", "events").load()
    finished = events.filter("kind = 'finished'").select("counts.messages").collect()
    assert sum(row.messages for row in finished) == ROWS
    with pytest.raises(Exception) as refused:
        spark.read.format("aqueduct").option("spool", str(spool)).load()
    assert "protocol toy, and format aqueduct" in error_line(refused.value)
    stored = spark.read.format("toy").option("spool", str(spool)).option("channels", "numbers-1")
    assert stored.load().count() == found.filter("topic = 'numbers-1'").count()
