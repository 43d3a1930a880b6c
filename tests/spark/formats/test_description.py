"""A format that lives elsewhere: read, decoded, filtered and written, with no line for it here."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from aqueduct_core.errors import CheckpointVersion, InvalidOption, SchemaMismatch
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.spool import InlineSync, Spool, SpoolSettings
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.read.stream.planner import StreamPlanner
from aqueduct_spark.read.stream.reader import StreamReader
from tests.spark.formats.toy import STORED, ToyDataSource, ToyFormat
from tests.spark.scene import error_line

NOTES = [b'{"n":%d}' % n for n in range(40)]


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Notes on two topics in turn."""
    directory = tmp_path / "spool" / "intake-0"
    settle_layout(directory, 1)
    names = [{"channel": "ab"[n % 2], "producer": "p"} for n in range(len(NOTES))]
    columns = [NOTES, range(len(NOTES)), names]
    stored = [pa.array(values, field.type) for values, field in zip(columns, STORED, strict=True)]
    batch = pa.RecordBatch.from_arrays(stored, schema=STORED)
    with Spool.open(
        directory, schema=STORED, partitions=2, settings=SpoolSettings(), sync=InlineSync
    ) as owner:
        owner.append(0, batch, [])
        assert owner.settle(10)
    return tmp_path / "spool"


def test_refusals_name_the_format() -> None:
    source = ToyDataSource({"listen": "127.0.0.1:0", "spool": "s", "desks": "x"})
    with pytest.raises(InvalidOption, match=r"'desks' is not known to format toy.*'desk'"):
        source.schema()
    with pytest.raises(InvalidOption, match=r"toy://host:port, .*note://host:port"):
        ToyDataSource({"endpoint": "aqueduct://h:1", "spool": "s"}).schema()
    with pytest.raises(InvalidOption, match="such as toy://host:4433"):
        ToyDataSource({"desk": "x"}).writer(ToyFormat().message_schema, False)  # type: ignore[arg-type]


def test_an_offset_of_another_format_is_refused_by_its_name() -> None:
    source = ToyDataSource({"listen": "127.0.0.1:0", "spool": "s"})
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StreamReader)
    assert isinstance(pickle.loads(pickle.dumps(reader)), StreamReader)
    with pytest.raises(CheckpointVersion, match="format toy did not write"):
        reader.latestOffset({"v": "kafka"}, ReadAllAvailable())


def test_intakes_are_launched_with_the_adapter_of_the_format(tmp_path: Path) -> None:
    given = {"listen": "127.0.0.1:0", "spool": str(tmp_path)}
    planner = StreamPlanner(ToyFormat(), StreamReadOptions.parse(given, ToyFormat.options))
    try:
        order = planner._intakes.order(0, None)
        assert order is not None
        assert order.settings.protocol == ToyFormat.protocol
    finally:
        planner.stop()


@pytest.mark.spark
def test_a_format_that_lives_elsewhere(spark: SparkSession, spool: Path, tmp_path: Path) -> None:
    spark.dataSource.register(ToyDataSource)
    notes = spark.read.format("toy").option("spool", str(spool))
    frame = notes.load()
    assert frame.columns == ["value", "topic", "partition", "offset"]
    assert [bytes(row.value) for row in frame.orderBy("offset").collect()] == NOTES
    assert notes.option("channels", "a").load().count() == 20
    decoded = (
        notes.option("payloadFormat", "json").schema("n INT, topic STRING, offset LONG").load()
    )
    assert {tuple(row) for row in decoded.collect()} == {(n, "a", n) for n in range(0, 40, 2)}
    late = spark.read.format("toy").option("spool", str(spool))
    assert late.option("startingTimestamp", "1970-01-01T00:00:00.000030").load().count() == 10
    desk = tmp_path / "desk"
    writer = frame.select("value").coalesce(1).write.format("toy").mode("append")
    writer.options(endpoint="toy://127.0.0.1:1", desk=str(desk)).save()
    assert sorted((desk / "0.txt").read_bytes().split(b"\n")) == sorted(NOTES)
    with pytest.raises(Exception) as refused:
        frame.write.format("toy").mode("append").option("endpoint", "note://h:1").save()
    assert SchemaMismatch("COLUMN_UNKNOWN", "", "").name in error_line(refused.value)
