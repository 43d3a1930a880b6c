"""Tables, views and streams of SQL: the catalog of Spark in front of the connector."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.producing import numbered, produce
from tests.spark.scene import Scene, error_line
from tests.spark.spools import filled

pytestmark = pytest.mark.spark

NOBODY = "aqueduct://127.0.0.1:9"


@pytest.fixture
def database(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """An empty database of the catalog, which is the current one; its managed tables are below."""
    home = tmp_path / "database"
    spark.sql(f"CREATE DATABASE sql_tests LOCATION '{home}'")
    spark.sql("USE sql_tests")
    yield home
    spark.sql("USE default")
    spark.sql("DROP DATABASE sql_tests CASCADE")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """What an intake has stored: 50 rows in two partitions and several segments."""
    directory = tmp_path / "stored"
    filled(directory / "intake-0", (30, 20), size=600, segment_bytes=4_096)
    assert len(segments(directory)) > 2
    return directory


def segments(spool: Path) -> list[Path]:
    return list(spool.glob("intake-0/*.arrows"))


def refusal(spark: SparkSession, statement: str) -> str:
    with pytest.raises(Exception, match="AQUEDUCT_") as refused:
        spark.sql(statement).collect()
    return error_line(refused.value)


def test_a_table_is_read_and_dropped_and_its_spool_stays(
    spark: SparkSession, database: Path, spool: Path
) -> None:
    spark.sql(f"CREATE TABLE stored USING aqueduct OPTIONS (SPOOL '{spool}') COMMENT 'all of it'")
    (row,) = spark.sql("SELECT count(*) n, count(DISTINCT partition) p FROM stored").collect()
    assert (row.n, row.p) == (50, 2)
    assert spark.read.table("stored").where("offset < 3").count() == 6
    assert spark.sql("SELECT * FROM stored WITH (channels = 'none')").count() == 0
    spark.sql("CREATE VIEW first AS SELECT CAST(value AS STRING) line FROM stored WHERE offset = 0")
    assert {row.line.strip() for row in spark.table("first").collect()} == {"0/0", "1/0"}
    before = segments(spool)
    spark.sql("DROP TABLE stored")
    assert segments(spool) == before


def test_what_spark_adds_to_a_table_is_not_taken_for_options(
    spark: SparkSession, database: Path, spool: Path
) -> None:
    spark.sql(
        f"CREATE TABLE placed USING aqueduct OPTIONS (spool '{spool}') LOCATION '{spool}' "
        "TBLPROPERTIES ('team' = 'meters')"
    )
    assert spark.table("placed").count() == 50
    before = segments(spool)
    spark.sql("DROP TABLE placed")
    assert segments(spool) == before
    line = refusal(spark, f"CREATE TABLE nothing USING aqueduct LOCATION '{spool}'")
    assert line.startswith("[AQUEDUCT_INVALID_OPTION.MISSING]")
    line = refusal(spark, f"CREATE TABLE notes USING aqueduct TBLPROPERTIES ('spool' = '{spool}')")
    assert line.startswith("[AQUEDUCT_INVALID_OPTION.CONFLICT] Option 'spool' stands in TBLPROP")
    with pytest.raises(Exception, match="AQUEDUCT_") as refused:
        spark.read.format("aqueduct").load(str(spool))
    assert "Option 'path', the argument of load()" in error_line(refused.value)


def test_a_table_streams_and_is_read_beside_its_stream(database: Path, scene: Scene) -> None:
    spark = scene.spark
    spark.sql(
        "CREATE TABLE arrivals USING aqueduct OPTIONS (listen '127.0.0.1:0', "
        f"spool '{scene.spool}', lease '{scene.lease}', partitionsPerIntake '1', "
        "`limits.connections` '50', retention '1h')"
    )
    query = scene.start(spark.sql("SELECT * FROM STREAM arrivals"))
    produce(scene.endpoint(), numbered(20))
    assert scene.await_rows(query, 20).count() == 20
    assert spark.sql("SELECT * FROM arrivals WHERE channel = 'readings'").count() == 20
    scene.checkpoint, scene.table = (
        p.with_name(p.name + "-2") for p in (scene.checkpoint, scene.table)
    )
    with pytest.raises(Exception, match="CURSOR_IN_USE"):
        scene.start(spark.readStream.table("arrivals")).processAllAvailable()
    second = scene.start(spark.readStream.option("cursor", "second").table("arrivals"))
    assert scene.await_rows(second, 20).count() == 20
    assert query.isActive


def test_rows_are_inserted_into_a_table(database: Path, scene: Scene, spool: Path) -> None:
    """From a table of ours into a table of ours, at an intake whose stream is a table, too."""
    spark = scene.spark
    query = scene.start()
    spark.sql(f"CREATE TABLE stored USING aqueduct OPTIONS (spool '{spool}')")
    spark.sql(
        f"CREATE TABLE copies USING aqueduct OPTIONS (endpoint '{scene.endpoint()}', "
        "`tls.insecure` 'true')"
    )
    spark.sql(
        f"CREATE TABLE lines USING aqueduct OPTIONS (endpoint '{scene.endpoint()}', "
        "`tls.insecure` 'true', payloadFormat 'text', channel 'lines')"
    )
    spark.sql("INSERT INTO copies SELECT value, channel FROM stored")
    spark.sql("INSERT INTO lines (value) VALUES ('one'), ('two')")
    spark.sql("INSERT INTO lines (value) SELECT to_json(struct(id)) FROM range(3)")
    spark.table("stored").select("value", "channel").limit(5).writeTo("copies").append()
    rows = scene.await_rows(query, 60)
    assert rows.count() == 60
    found = {
        row.channel: row.n for row in rows.groupBy("channel").count().toDF("channel", "n").collect()
    }
    assert found == {"a": 55, "lines": 5}
    texts = {bytes(row.value) for row in rows.where("channel = 'lines'").collect()}
    assert texts == {b"one", b"two", b'{"id":0}', b'{"id":1}', b'{"id":2}'}


@pytest.mark.long
def test_what_a_table_cannot_do_is_told(spark: SparkSession, database: Path, spool: Path) -> None:
    """Its other refusals, without Spark: tests/spark/options/test_catalog.py."""
    spark.sql(f"CREATE TABLE told (value BINARY) USING aqueduct OPTIONS (spool '{spool}')")
    spark.sql(f"CREATE TABLE stored USING aqueduct OPTIONS (spool '{spool}')")
    spark.sql(f"CREATE TABLE sent USING aqueduct OPTIONS (endpoint '{NOBODY}')")
    for statement, words in {
        "SELECT * FROM told": "MISSING] No option came with a batch read",
        "INSERT INTO stored TABLE stored": "MISSING] No option came with a batch write",
        "SELECT * FROM sent": "NOT_FOR_QUERY_TYPE] The table is for INSERT",
        "INSERT OVERWRITE sent VALUES (X'00', 'a')": "[AQUEDUCT_SAVE_MODE] Mode overwrite",
        "CREATE TABLE other USING aqueduct OPTIONS (spol '/s')": "UNKNOWN] Option 'spol'",
        f"CREATE TABLE other USING aqueduct OPTIONS (endpoint '{NOBODY}') AS SELECT 'a' value": (
            "MISSING] No option came with a batch write"
        ),
    }.items():
        assert words in refusal(spark, statement), statement
    spark.sql("ALTER TABLE stored ADD COLUMN more INT")
    line = refusal(spark, "SELECT * FROM stored")
    assert line.startswith("[AQUEDUCT_SCHEMA.COLUMN_TYPE]")
    assert "DROP TABLE and create it anew" in line


def test_a_view_has_columns_of_its_own(spark: SparkSession, spool: Path) -> None:
    spark.sql(
        "CREATE TEMPORARY VIEW parsed (id INT, channel STRING, _corrupt BINARY) USING aqueduct "
        f"OPTIONS (spool '{spool}', payloadFormat 'json', channels 'a')"
    )
    try:
        (row,) = spark.sql("SELECT count(_corrupt) bad, count(id) good FROM parsed").collect()
        assert (row.bad, row.good) == (50, 0)
    finally:
        spark.sql("DROP VIEW parsed")


def test_no_secret_of_a_table_is_shown(spark: SparkSession, database: Path, spool: Path) -> None:
    """It names the file or variable; what is in it comes with no statement and no column."""
    token = database.with_name("a-token")
    token.write_text("very-secret\n")
    spark.sql(
        f"CREATE TABLE kept USING aqueduct OPTIONS (listen '127.0.0.1:0', spool '{spool}', "
        f"`auth.tokenFile` '{token}')"
    )
    shown = [spark.sql(f"{verb} kept") for verb in ("DESCRIBE EXTENDED", "SHOW CREATE TABLE")]
    texts = [str(frame.collect()) for frame in shown] + [spark.table("kept").schema.json()]
    assert not [text for text in texts if "very-secret" in text]
    assert spark.table("kept").count() == 50
