"""Jobs send rows in an order that is the same each time, whatever Spark made of the input."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import Row

from aqueduct_jobs import config, publish, replay

pytestmark = pytest.mark.spark

ROWS = 600


def partitions(frame: DataFrame) -> list[list[Row]]:
    return frame.rdd.glom().collect()


def tables(known: config.Known, **given: dict[str, object]) -> config.Tables:
    return {name: given.get(name, {}) for name in known}


def numbered_files(folder: Path, spark: SparkSession) -> str:
    """Each line has the number of its place in its file."""
    for file in range(3):
        lines = (f"{file},{place}" for place in range(ROWS // 3))
        (folder / f"{file}.csv").write_text("\n".join(lines) + "\n")
    return str(folder)


def test_a_table_that_is_spread_keeps_the_order_of_its_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = {"format": "csv", "schema": "file INT, place INT"}
    given = tables(
        publish.KNOWN,
        input={**source, "path": numbered_files(tmp_path, spark)},
        message={"value": "concat(file, '/', place)", "partitions": 4},
    )
    found = partitions(publish.read(spark, given))
    assert len(found) == 4
    assert sum(map(len, found)) == ROWS
    for rows in found:
        last: dict[str, int] = {}
        for row in rows:
            file, place = row.value.split("/")
            assert int(place) > last.get(file, -1)
            last[file] = int(place)
    assert publish.read(spark, given).columns == ["value"]


def test_a_table_is_sent_in_the_order_that_was_asked_for(
    spark: SparkSession, tmp_path: Path
) -> None:
    given = tables(
        publish.KNOWN,
        input={
            "format": "csv",
            "schema": "file INT, place INT",
            "path": numbered_files(tmp_path, spark),
        },
        message={"value": "string(place)", "orderBy": ["place", "file"], "partitions": 2},
    )
    for rows in partitions(publish.read(spark, given)):
        places = [int(row.value) for row in rows]
        assert places == sorted(places)


def test_rows_with_the_same_time_keep_their_places(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(n // 50, f"value {n}", f"c{n % 3}") for n in range(ROWS)]
    found = []
    for name, given in (("one", rows), ("other", rows[::-1])):
        path = str(tmp_path / name)
        spark.createDataFrame(given, "time INT, value STRING, channel STRING").write.parquet(path)
        wanted = tables(
            replay.KNOWN,
            source={"format": "parquet", "path": path},
            select={"orderBy": ["time"]},
            pace={"mode": "rate", "rowsPerSecond": 70},
        )
        frame, order = replay.read(spark, wanted)
        pace = replay.Pace.parse(wanted)
        steps = frame.withColumn(replay.STEP, pace.step_of(frame, order))
        found.append(partitions(steps.repartition(2, "channel").sortWithinPartitions(*order)))
    assert found[0] == found[1]
