"""spark.read: what is stored, and channels to their finish, as DataFrames."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from aqueduct_spark.formats.aqueduct.columns import message_schema
from aqueduct_spark.model.schemas import status_schema
from tests.spark.scene import error_line
from tests.spark.spools import filled, open_spool, rows, store
from tests.support.remote import RemoteThread, Script, payloads

pytestmark = pytest.mark.spark


def load(spark: SparkSession, **options: str) -> DataFrame:
    given = {key.replace("_", "."): value for key, value in options.items()}
    return spark.read.format("aqueduct").options(**given).load()


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    filled(tmp_path / "spool" / "intake-0", (3_000, 2_000), grain=500)
    return tmp_path / "spool"


def test_a_frame_keeps_its_rows(spark: SparkSession, spool: Path) -> None:
    frame = load(spark, spool=str(spool), maxRecordsPerPartition="1000")
    assert frame.schema == message_schema()
    assert frame.rdd.getNumPartitions() == 5
    with open_spool(spool / "intake-0") as owner:
        store(owner, [(0, rows(3_000, 100))])
    counts = frame.groupBy("partition").agg(
        f.count("*").alias("rows"), f.min("offset").alias("low"), f.max("offset").alias("high")
    )
    expected = {(0, 3_000, 0, 2_999), (1, 2_000, 0, 1_999)}
    assert {tuple(row) for row in counts.collect()} == expected
    assert load(spark, spool=str(spool)).count() == 5_100


def test_a_spool_without_a_row_has_none(spark: SparkSession, tmp_path: Path) -> None:
    open_spool(tmp_path / "intake-0").close()
    assert load(spark, spool=str(tmp_path)).collect() == []
    assert load(spark, spool=str(tmp_path), view="events").count() == 0


def test_filters_and_headers(spark: SparkSession, spool: Path) -> None:
    with open_spool(spool / "intake-0") as owner:
        store(owner, [(1, rows(2_000, 7, channel="other", producer="q"))])
    given = {"includeHeaders": "true", "includeSpool": "true"}
    frame = load(spark, spool=str(spool), channelsPattern="oth.*", **given)
    assert frame.schema == message_schema(include_headers=True).add("spool", "string")
    assert {row.spool for row in frame.collect()} == {owner.id}
    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(2_000, 2_007))
    assert load(spark, spool=str(spool), producers="p").count() == 5_000


def test_status_of_a_spool_at_rest(spark: SparkSession, spool: Path) -> None:
    with open_spool(spool / "intake-0") as owner:
        owner.commit("query", [1_000, 2_000, None])
        owner.commit("other", [2_500, 500, None])
    frame = load(spark, spool=str(spool), view="status")
    assert frame.schema == status_schema()
    first, second = frame.orderBy("partition").collect()
    assert (first.intake, first.partition, first.state) == (0, 0, "ended")
    assert (first.startOffset, first.durableOffset, first.committedOffset) == (0, 3_000, 1_000)
    assert first.cursors == {"query": 1_000, "other": 2_500}
    assert second.committedOffset == 500
    assert first.oldestUncommittedSeconds > 0
    assert 0 < first.bytes < first.spoolBytes
    assert (first.connections, first.messagesPerSecond) == (0, 0.0)


def test_an_endpoint_to_its_finish(spark: SparkSession, tmp_path: Path) -> None:
    scripts = {"a": Script(3_000), "b": Script(50)}
    with RemoteThread(scripts, tmp_path) as remote:
        frame = load(
            spark,
            endpoint=remote.url,
            tls_caFile=str(remote.ca_file),
            subscribe="a,b",
            untilTimeout="40s",
            spool=str(tmp_path / "spools"),
        )
        found = frame.select("channel", "value").collect()
    assert [bytes(r.value) for r in found if r.channel == "a"] == payloads("a", scripts["a"])
    assert len(found) == 3_050
    assert list((tmp_path / "spools").iterdir()) == []


def test_a_cancelled_channel_fails_the_job(spark: SparkSession, tmp_path: Path) -> None:
    with RemoteThread({"a": Script(3, end="cancel")}, tmp_path) as remote:
        frame = load(
            spark,
            endpoint=remote.url,
            tls_caFile=str(remote.ca_file),
            subscribe="a",
            untilTimeout="40s",
        )
        with pytest.raises(Exception, match="AQUEDUCT_") as failed:
            frame.count()
    assert "[AQUEDUCT_CHANNEL.CANCELLED] channel 'a'" in str(failed.value)


def test_refusals_at_load(spark: SparkSession, spool: Path) -> None:
    for options, words in [
        ({"spool": str(spool.parent / "none")}, "[AQUEDUCT_SPOOL.IO] Option 'spool'"),
        ({"endpoint": "aqueduct://127.0.0.1:1", "until": "finish"}, "Option 'untilTimeout'"),
        ({"spool": str(spool), "channels": "a", "channelsPattern": "a"}, "CONFLICT]"),
    ]:
        with pytest.raises(Exception, match="AQUEDUCT_") as refused:
            load(spark, **options)
        assert words in error_line(refused.value)
    with pytest.raises(Exception, match="AQUEDUCT_") as listens:
        load(spark, listen="127.0.0.1:0", spool=str(spool)).count()
    assert "'listen'" in error_line(listens.value)
