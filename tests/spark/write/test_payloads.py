"""Frames written and read back in each payload format: equal, whatever the columns hold."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.spark.producing import produce
from tests.spark.scene import Scene, error_line
from tests.spark.test_datasource import failure_of
from tests.spark.write.test_writers import refusal, write

pytestmark = pytest.mark.spark

COLUMNS = (
    "id LONG, name STRING, raw BINARY, yes BOOLEAN, small SMALLINT, ratio DOUBLE, "
    "price DECIMAL(10, 2), day DATE, at TIMESTAMP, tags ARRAY<STRING>, "
    "place STRUCT<x: INT, y: INT>, more MAP<STRING, LONG>"
)


def readings(scene: Scene, rows: int = 500) -> DataFrame:
    frame = scene.spark.range(rows).select(
        "id",
        f.concat(f.lit("é "), "id").alias("name"),
        f.col("id").cast("string").cast("binary").alias("raw"),
        (f.col("id") % 2 == 0).alias("yes"),
        (f.col("id") % 100).cast("smallint").alias("small"),
        (f.col("id") / 7).alias("ratio"),
        f.lit(Decimal("12.50")).cast("decimal(10,2)").alias("price"),
        f.lit(date(2026, 2, 3)).alias("day"),
        (f.lit("2026-02-03 04:05:06.789").cast("timestamp")).alias("at"),
        f.array(f.lit("a"), f.lit(None).cast("string")).alias("tags"),
        f.struct(f.lit(1).alias("x"), f.lit(None).cast("int").alias("y")).alias("place"),
        f.create_map(f.lit("k"), "id").alias("more"),
    )
    nulls = [f.lit(None).cast(field.dataType).alias(field.name) for field in frame.schema]
    return frame.unionByName(scene.spark.range(3).select(*nulls))


def sortable(frame: DataFrame) -> DataFrame:
    return frame.withColumn("more", f.map_entries("more"))


@pytest.mark.parametrize("payload_format", ["json", pytest.param("arrow", marks=pytest.mark.long)])
def test_rows_come_back_as_columns(scene: Scene, payload_format: str) -> None:
    sent = readings(scene)
    reader = (
        scene.spark.readStream.format("aqueduct")
        .schema(COLUMNS + ", channel STRING, offset LONG, _corruptReason STRING")
        .options(listen="127.0.0.1:0", spool=str(scene.spool), lease=scene.lease)
    )
    frame = reader.option("payloadFormat", payload_format).load()
    query = scene.start(frame)
    # Spark's Arrow batches are the messages: a small one, so that there are several
    scene.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        write(sent.coalesce(1), scene.endpoint(), payloadFormat=payload_format, channel="readings")
    finally:
        scene.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    back = scene.await_rows(query, 503)
    assert back.where("_corruptReason IS NOT NULL OR channel != 'readings'").count() == 0
    assert_df_equality(
        sortable(back.select(sent.columns)),
        sortable(sent),
        ignore_nullable=True,
        ignore_row_order=True,
    )
    messages = back.select("offset").distinct().count()
    assert messages == 503 if payload_format == "json" else messages < 20


@pytest.mark.long
def test_text_comes_back_as_text(scene: Scene) -> None:
    query = scene.start(scene.frame(payloadFormat="text"))
    sent = scene.spark.createDataFrame([("é",), ("",), ("x\ny",)], "value string")
    write(sent, scene.endpoint(), payloadFormat="text")
    back = scene.await_rows(query, 3)
    assert_df_equality(back.select("value"), sent, ignore_nullable=True, ignore_row_order=True)


@pytest.mark.long
def test_bad_payloads_by_mode(scene: Scene) -> None:
    reader = scene.spark.readStream.format("aqueduct").schema(
        "id LONG, channel STRING, _corrupt BINARY"
    )
    options = {"listen": "127.0.0.1:0", "spool": str(scene.spool), "lease": scene.lease}
    frame = reader.options(**options, payloadFormat="json").load()
    query = scene.start(frame)
    produce(scene.endpoint(), [b'{"id": 1}', b"no json", b'{"id": 3}'])
    rows = scene.await_rows(query, 3).orderBy(f.col("id").asc_nulls_last()).collect()
    assert [(row.id, row._corrupt) for row in rows] == [(1, None), (3, None), (None, b"no json")]
    query.stop()
    # the same stored rows, read by a query that does not bear them
    scene.checkpoint = scene.checkpoint.with_name("strict")
    scene.table = scene.table.with_name("strict-table")
    strict = reader.options(**options, payloadFormat="json", mode="failFast", cursor="strict")
    produce(scene.endpoint(), [b"no json either"], name="more")
    line = failure_of(scene.start(strict.load()))
    assert line.startswith("[AQUEDUCT_MALFORMED_PAYLOAD] The message at offset")


def test_formats_that_do_not_fit_are_refused_at_once(scene: Scene) -> None:
    nobody = "aqueduct://127.0.0.1:1"
    spark = scene.spark
    headers = spark.createDataFrame(
        [(1, [])], "id int, headers array<struct<key:string,value:binary>>"
    )
    assert "COLUMN_UNKNOWN] Column 'headers'" in refusal(headers, nobody, payloadFormat="arrow")
    binary = spark.createDataFrame([(b"x",)], "value binary")
    assert "COLUMN_TYPE] Column 'value'" in refusal(binary, nobody, payloadFormat="text")
    only = spark.createDataFrame([("c",)], "channel string")
    assert "COLUMN_MISSING]" in refusal(only, nobody, payloadFormat="json")
    span = spark.sql("SELECT INTERVAL '1' DAY AS span")
    assert "COLUMN_TYPE] Column 'span'" in refusal(span, nobody, payloadFormat="json")
    with pytest.raises(Exception, match="AQUEDUCT_SCHEMA") as refused:
        scene.frame(payloadFormat="arrow")
    assert error_line(refused.value).startswith("[AQUEDUCT_SCHEMA.REQUIRED]")
