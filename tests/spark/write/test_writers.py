"""Rows to an endpoint: what is written is what arrives, and failures say why."""

from __future__ import annotations

from pathlib import Path

import pytest
from chispa import assert_df_equality
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.spark.scene import Scene, error_line
from tests.support.ports import free_port

pytestmark = pytest.mark.spark


def write(frame: DataFrame, endpoint: str, **options: str) -> None:
    given = {key.replace("_", "."): value for key, value in options.items()}
    base = {"endpoint": endpoint, "tls.insecure": "true"}
    frame.write.format("aqueduct").mode("append").options(**(base | given)).save()


def refusal(frame: DataFrame, endpoint: str, **options: str) -> str:
    with pytest.raises(Exception, match="AQUEDUCT_") as failed:
        write(frame, endpoint, **options)
    return error_line(failed.value)


def test_a_frame_comes_back_as_it_was_sent(scene: Scene) -> None:
    query = scene.start(scene.frame(includeHeaders="true"))
    endpoint = scene.endpoint()
    sent = scene.spark.range(3_000).select(
        f.concat(f.lit("row "), "id").cast("binary").alias("value"),
        f.concat(f.lit("channel-"), f.col("id") % 3).alias("channel"),
        f.when(
            f.col("id") % 100 == 0,
            f.array(f.struct(f.lit("n").alias("key"), f.lit(b"\xff").alias("value"))),
        ).alias("headers"),
    )
    write(sent.repartition(2), endpoint, writerId="round-trip", batchId="0")
    back = scene.await_rows(query, 3_000)
    assert_df_equality(
        back.select("value", "channel", "headers"),
        sent,
        ignore_nullable=True,
        ignore_row_order=True,
    )
    producers = {row.producer for row in back.select("producer").distinct().collect()}
    assert producers == {"round-trip/0", "round-trip/1"}
    again = back.groupBy("producer", "channel").agg(
        f.count("*").alias("rows"), f.max("messageNum").alias("last")
    )
    assert all(row.rows == row.last + 1 for row in again.collect())


@pytest.mark.long
def test_text_in_each_reliability(scene: Scene) -> None:
    query = scene.start()
    kinds = ["ordered", "unordered", "unreliable"]
    frame = scene.spark.createDataFrame(
        [(f"é {n}", kinds[n % 3]) for n in range(90)], "value string, reliability string"
    )
    write(frame.coalesce(1), scene.endpoint(), channel="mixed")
    back = scene.await_rows(query, 60)
    texts = back.select(f.col("value").cast("string").alias("value"), "reliable", "channel")
    assert texts.where("channel != 'mixed'").count() == 0
    reliable = frame.where("reliability != 'unreliable'").select("value")
    assert_df_equality(
        texts.where("reliable").select("value"),
        reliable,
        ignore_nullable=True,
        ignore_row_order=True,
    )


def test_an_empty_frame_dials_nobody(scene: Scene) -> None:
    empty = scene.spark.createDataFrame([], "value string")
    nobody = f"aqueduct://127.0.0.1:{free_port()}"
    write(empty, nobody)
    row = scene.spark.createDataFrame([("x",)], "value string")
    assert refusal(row, nobody).startswith("[AQUEDUCT_CONNECT.")


@pytest.mark.long
def test_failures_have_one_line_each(scene: Scene, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret-of-the-listener\n")
    query = scene.start(scene.frame(auth_tokenFile=str(token), maxMessageBytes="1m"))
    endpoint = scene.endpoint()
    row = scene.spark.createDataFrame([("x",)], "value string")

    assert refusal(row, endpoint).startswith("[AQUEDUCT_AUTH.REJECTED]")
    bad = tmp_path / "bad"
    bad.write_text("secret-of-nobody")
    rejected = refusal(row, endpoint, auth_tokenFile=str(bad))
    assert rejected.startswith("[AQUEDUCT_AUTH.REJECTED]")
    assert "secret" not in rejected
    assert refusal(row, endpoint, auth_tokenFile="/nowhere").startswith("[AQUEDUCT_AUTH.MISSING]")
    unverified = refusal(row, endpoint, tls_insecure="false")
    assert unverified.startswith("[AQUEDUCT_TLS.UNKNOWN_CA]")
    nobody = refusal(row, f"aqueduct://127.0.0.1:{free_port()}")
    assert nobody.startswith("[AQUEDUCT_CONNECT.")
    large = scene.spark.range(1).select(f.repeat(f.lit("x"), 2 << 20).alias("value"))
    too_large = refusal(large, endpoint, auth_tokenFile=str(token), maxMessageBytes="1m")
    assert too_large.startswith("[AQUEDUCT_SINK.MESSAGE_TOO_LARGE]")
    null = scene.spark.createDataFrame([(None,)], "value string")
    assert refusal(null, endpoint, auth_tokenFile=str(token)).startswith(
        "[AQUEDUCT_SCHEMA.REQUIRED]"
    )

    write(row, endpoint, auth_tokenFile=str(token), channel="at last")
    assert [r.channel for r in scene.await_rows(query, 1).collect()] == ["at last"]


def test_frames_that_cannot_be_written_are_refused_before_any_task(scene: Scene) -> None:
    nobody = f"aqueduct://127.0.0.1:{free_port()}"
    spark = scene.spark
    for frame, words in [
        (spark.range(1), "COLUMN_UNKNOWN] Column 'id'"),
        (spark.createDataFrame([(1,)], "value int"), "COLUMN_TYPE] Column 'value' is int"),
        (spark.createDataFrame([("c",)], "channel string"), "COLUMN_MISSING] Column 'value'"),
    ]:
        assert words in refusal(frame, nobody)
    row = spark.createDataFrame([("x",)], "value string")
    assert "INVALID_OPTION.UNKNOWN" in refusal(row, nobody, chanel="x")
    with pytest.raises(Exception, match="AQUEDUCT_SAVE_MODE") as refused:
        row.write.format("aqueduct").mode("overwrite").option("endpoint", nobody).save()
    assert error_line(refused.value).startswith("[AQUEDUCT_SAVE_MODE] Mode overwrite")


@pytest.mark.long
def test_a_thousand_channels_and_values_of_all_sizes(scene: Scene) -> None:
    query = scene.start()
    endpoint = scene.endpoint()
    many = scene.spark.range(3_000).select(
        f.concat(f.lit("row "), "id").cast("binary").alias("value"),
        f.when(f.col("id") > 2, f.concat(f.lit("channel-"), f.col("id") % 1_000)).alias("channel"),
    )
    write(many.repartition(2), endpoint)
    sizes = [0, 1, 1_199, 65_536, 10 * 1024 * 1024]
    large = scene.spark.createDataFrame([(size,) for size in sizes], "size int").select(
        f.repeat(f.lit("x"), f.col("size")).cast("binary").alias("value"),
        f.lit("large").alias("channel"),
    )
    write(large.coalesce(1), endpoint)
    back = scene.await_rows(query, 3_005)
    assert_df_equality(
        back.where("channel != 'large'").select("value", "channel"),
        many.fillna("spark", "channel"),
        ignore_nullable=True,
        ignore_row_order=True,
    )
    found = back.where("channel = 'large'").orderBy("messageNum")
    assert [row.n for row in found.select(f.length("value").alias("n")).collect()] == sizes
    assert back.select("channel").distinct().count() == 1_002


@pytest.mark.long
def test_a_job_that_is_run_again(scene: Scene) -> None:
    """The same writer and batch: the same rows (others are an error, FAULTS 43). The next batch of
    the writer: other ones."""
    query = scene.start()
    endpoint = scene.endpoint()
    rows = scene.spark.range(200).select(f.col("id").cast("string").alias("value"))
    for batch in ("0", "0", "1"):
        write(rows.coalesce(1), endpoint, writerId="job", batchId=batch)
    back = scene.await_rows(query, 400)
    query.processAllAvailable()
    counts = {row["count"] for row in back.groupBy("value").count().collect()}
    assert counts == {2}
    others = rows.select(f.concat("value", f.lit("!")).alias("value")).coalesce(1)
    error = refusal(others, endpoint, writerId="job", batchId="1")
    assert error.startswith("[AQUEDUCT_SINK.NOT_REPEATABLE]")
    assert "batch 1, partition 0 of writer 'job'" in error


@pytest.mark.long
def test_a_stream_whose_batch_is_done_again(scene: Scene, tmp_path: Path) -> None:
    """The commit log loses its last entry, as a driver that dies at the wrong moment leaves it."""
    query = scene.start()
    endpoint = scene.endpoint()
    source, checkpoint = tmp_path / "input", tmp_path / "sink-checkpoint"
    source.mkdir()

    def run() -> None:
        frame = scene.spark.readStream.format("text").option("maxFilesPerTrigger", 1)
        writer = frame.load(str(source)).writeStream.format("aqueduct").trigger(availableNow=True)
        writer = writer.option("endpoint", endpoint).option("tls.insecure", "true")
        scene.follow(
            writer.option("checkpointLocation", str(checkpoint)).start()
        ).awaitTermination()

    for file in range(2):
        lines = "\n".join(str(file * 100 + n) for n in range(100))
        (source / f"{file}.txt").write_text(lines)
    run()
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    (source / "2.txt").write_text("\n".join(str(200 + n) for n in range(100)))
    run()
    back = scene.await_rows(query, 300)
    values = back.groupBy("value").count()
    assert values.count() == 300
    assert values.where("count != 1").count() == 0
    frame = scene.spark.readStream.format("text").load(str(source)).groupBy("value").count()
    writer = frame.select("value").writeStream.format("aqueduct").outputMode("complete")
    writer = writer.option("endpoint", endpoint).option("tls.insecure", "true")
    writer = writer.option("checkpointLocation", str(tmp_path / "complete"))
    with pytest.raises(Exception, match="AQUEDUCT_SAVE_MODE"):
        scene.follow(writer.start()).awaitTermination(40)
