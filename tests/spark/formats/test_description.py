"""A format that lives elsewhere: read, decoded, filtered and refused, with no line for it here."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from aqueduct_core.errors import CheckpointVersion, InvalidOption, SchemaMismatch
from aqueduct_core.intake.adapter import adapter_named
from aqueduct_spark.formats.aqueduct.format import AqueductFormat
from aqueduct_spark.formats.description import FormatDescription
from aqueduct_spark.options.read import StreamReadOptions
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.options.spec import OptionKind
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.read.stream.planner import StreamPlanner
from aqueduct_spark.read.stream.reader import StreamReader
from tests.spark.scene import error_line
from tests.toy.format import ToyDataSource, ToyFormat
from tests.toy.spools import toy_spool

MESSAGES = [b'{"n":%d}' % n for n in range(40)]


def test_refusals_name_the_format() -> None:
    source = ToyDataSource({"listen": "127.0.0.1:0", "spool": "s", "topics": "x"})
    with pytest.raises(InvalidOption, match=r"'topics' is not known to format toy.*'topic'"):
        source.schema()
    with pytest.raises(InvalidOption, match=r"toy://host:port, .*tin://host:port"):
        ToyDataSource({"endpoint": "aqueduct://h:1", "spool": "s"}).schema()
    with pytest.raises(InvalidOption, match="such as toy://host:4433"):
        ToyDataSource({"topic": "x"}).writer(StructType(), False)


@pytest.mark.parametrize(
    "name", ["subscribe", "includeHeaders", "channel", "reliability", "supersededBatch"]
)
def test_what_only_aqueduct_has_is_not_known_to_another(name: str) -> None:
    for kind in OptionKind:
        with pytest.raises(InvalidOption, match=rf"UNKNOWN.*'{name.lower()}'.* format toy"):
            ToyFormat.options.parse({name: "x"}, kind)


def test_what_a_format_makes_of_its_own_options() -> None:
    given = {"endpoint": "toy://h:1", "topic": "weather"}
    assert WriteOptions.parse(given, ToyFormat.options).own == "weather"
    given = {"endpoint": "toy://h:1", "spool": "/s"}
    assert StreamReadOptions.parse(given, ToyFormat.options).rows.own is None


def test_an_offset_of_another_format_is_refused_by_its_name(tmp_path: Path) -> None:
    source = ToyDataSource({"listen": "127.0.0.1:0", "spool": str(tmp_path)})
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
def test_a_format_that_lives_elsewhere(spark: SparkSession, tmp_path: Path) -> None:
    spark.dataSource.register(ToyDataSource)
    toy_spool(tmp_path / "intake-0", MESSAGES, topics=("a", "b"))
    read = spark.read.format("toy").option("spool", str(tmp_path))
    frame = read.load()
    assert frame.columns == ToyFormat().message_schema(RowOptions()).fieldNames()
    assert [bytes(row.value) for row in frame.orderBy("offset").collect()] == MESSAGES
    assert read.option("channels", "a").load().count() == 20
    decoded = read.option("payloadFormat", "json").schema("n INT, topic STRING, offset LONG")
    found = decoded.load().collect()
    assert {tuple(row) for row in found} == {(n, "a", n) for n in range(0, 40, 2)}
    late = spark.read.format("toy").option("spool", str(tmp_path))
    assert late.option("startingTimestamp", "1970-01-01T00:00:00.000030").load().count() == 10
    with pytest.raises(Exception) as refused:
        frame.write.format("toy").mode("append").option("endpoint", "tin://h:1").save()
    assert SchemaMismatch("COLUMN_UNKNOWN", "", "").name in error_line(refused.value)


@pytest.mark.parametrize("description", [AqueductFormat(), ToyFormat()])
def test_events_have_the_counts_of_the_protocol(description: FormatDescription) -> None:
    adapter = adapter_named(description.protocol)
    assert tuple(description.event_counts) == tuple(adapter.rows.events.counts)
    events = description.schema(RowOptions(view="events"))
    assert events.fieldNames() == adapter.rows.events.rows.names
