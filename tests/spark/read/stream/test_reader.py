"""Channels as a streaming DataFrame: what was sent is what is in the table."""

from __future__ import annotations

import json

import pytest
from chispa import assert_df_equality
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

from aqueduct_spark.formats.aqueduct.columns import message_schema
from tests.spark.producing import numbered, produce
from tests.spark.scene import PATIENCE, Scene, error_line
from tests.support.waiting import ended, wait_until

pytestmark = pytest.mark.spark


def test_rows_are_what_was_sent(scene: Scene) -> None:
    query = scene.start()
    sent = numbered(2_000)
    outcome = produce(scene.endpoint(), sent)
    assert (outcome.sent, outcome.acked) == (2_000, 2_000)
    rows = scene.await_rows(query, 2_000)
    assert rows.schema == message_schema()
    expected = scene.spark.createDataFrame(
        [(bytearray(p), "readings", "tester", n, True) for n, p in enumerate(sent)],
        "value binary, channel string, producer string, messageNum long, reliable boolean",
    )
    assert_df_equality(
        rows.orderBy("messageNum").drop("partition", "offset", "timestamp"),
        expected,
        ignore_nullable=True,
    )
    [order] = rows.agg(
        f.countDistinct("partition").alias("partitions"),
        f.countDistinct("offset").alias("offsets"),
        f.corr("offset", "messageNum").alias("order"),
    ).collect()
    assert (order.partitions, order.offsets) == (1, 2_000)
    assert order.order == pytest.approx(1.0)


@pytest.mark.parametrize("mode", [pytest.param("unordered", marks=pytest.mark.long), "unreliable"])
def test_the_other_modes(scene: Scene, mode: str) -> None:
    query = scene.start()
    outcome = produce(scene.endpoint(), numbered(300), mode=mode)
    assert outcome.sent == 300
    rows = scene.await_rows(query, outcome.acked)
    assert rows.count() == outcome.acked
    assert rows.where(f.col("reliable") == (mode == "unordered")).count() == outcome.acked
    assert rows.select("messageNum").distinct().count() == outcome.acked


def test_headers_and_metadata_are_added_on_request(scene: Scene) -> None:
    given = {"includeHeaders": "true", "includeMetadata": "true", "includeSpool": "true"}
    query = scene.start(scene.frame(**given))
    produce(
        scene.endpoint(),
        [b"one"],
        token="not-asked-for",
        channel_headers=[("unit", "kelvin")],
        message_headers=[("k", "1"), ("k", "2")],
    )
    scene.await_rows(query, 1)
    table = scene.spark.read.parquet(str(scene.table))
    assert table.schema == message_schema(include_headers=True, include_metadata=True).add(
        "spool", "string"
    )
    [row] = table.where("channel = 'readings'").collect()
    [entry] = table.where("channel = '0'").collect()
    assert [(h.key, bytes(h.value)) for h in row.headers] == [("k", b"1"), ("k", b"2")]
    assert ("unit", b"kelvin") in [(h.key, bytes(h.value)) for h in row.channelHeaders]
    assert [h.key for h in row.connectionHeaders] == ["producer"]
    assert row.attachments is None
    assert row.spool == json.loads(scene.offsets()[-1])["spool"]["0"]["id"]
    assert (row.parentChannelId, row.parentMessageNum) == (0, 0)
    assert row.connectionId == entry.connectionId
    assert entry.parentChannelId is None
    [attached] = entry.attachments
    assert (attached.channelId, attached.direction) == (row.channelId, "receive")


@pytest.mark.long
def test_a_limit_bounds_each_batch(scene: Scene) -> None:
    query = scene.start(scene.frame(maxOffsetsPerTrigger="100"))
    produce(scene.endpoint(), numbered(950))
    rows = scene.await_rows(query, 950)
    assert rows.count() == 950
    query.processAllAvailable()
    sizes = [progress["numInputRows"] for progress in query.recentProgress]
    assert max(sizes) == 100
    assert sum(sizes) == 951  # with the entrypoint message


def test_available_now_ends_with_what_is_there(scene: Scene) -> None:
    first = scene.start()
    produce(scene.endpoint(), numbered(500))
    scene.await_rows(first, 500)
    first.stop()
    produce(scene.endpoint(), numbered(700), name="later")
    bounded = scene.start(scene.frame(maxOffsetsPerTrigger="300"), availableNow=True)
    assert bounded.awaitTermination(PATIENCE)
    assert bounded.exception() is None
    assert scene.rows().where("channel = 'later'").count() == 700
    assert sum(p["numInputRows"] for p in bounded.recentProgress) == 701
    # The last batches are the tick: the commit of everything has reached the intake.
    end = json.loads(scene.offsets()[-1])
    assert end["tick"] > 0
    assert committed(scene) == end["spool"]["0"]["to"]


def test_a_query_of_one_batch_is_refused_instead_of_reading_nothing(scene: Scene) -> None:
    query = scene.start(once=True)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(PATIENCE)
    line = error_line(query.exception())
    assert line.startswith("[AQUEDUCT_INVALID_OPTION.NOT_FOR_QUERY_TYPE] This query has one batch")
    assert "availableNow" in line
    assert not scene.spool.exists()


@pytest.mark.long
def test_a_quiet_stream_commits_and_then_is_still(scene: Scene) -> None:
    query = scene.start()
    produce(scene.endpoint(), numbered(50))
    scene.await_rows(query, 50)

    def is_committed() -> bool:
        return committed(scene) == json.loads(scene.offsets()[-1])["spool"]["0"]["to"]

    wait_until(is_committed, PATIENCE, "the commit of the last batch")
    query.processAllAvailable()
    batches = len(scene.offsets())
    query.processAllAvailable()
    assert len(scene.offsets()) == batches


@pytest.mark.long
def test_latest_leaves_out_what_was_stored_before(scene: Scene) -> None:
    first = scene.start()
    produce(scene.endpoint(), numbered(10), name="old")
    scene.await_rows(first, 10)
    first.stop()
    scene.retire()  # it has to let go of the spool
    scene.checkpoint = scene.checkpoint.with_name("other")
    scene.table = scene.table.with_name("other-table")
    second = scene.start(scene.frame(startingOffsets="latest", cursor="other"))
    second.processAllAvailable()
    produce(scene.endpoint(), numbered(10), name="new")
    rows = scene.await_rows(second, 10)
    assert [row.channel for row in rows.select("channel").distinct().collect()] == ["new"]


def test_the_planner_ends_with_its_query(scene: Scene) -> None:
    query = scene.start()
    scene.intake()
    [planner] = scene.planners()
    query.stop()
    ended(planner, PATIENCE)
    assert scene.planners() == []


@pytest.mark.long
def test_several_intakes_feed_one_query(scene: Scene) -> None:
    query = scene.start(scene.frame(numIntakes="2"))
    for index in (0, 1):
        produce(scene.endpoint(index), numbered(100), name=f"channel-{index}")
    rows = scene.await_rows(query, 200)
    counts = {row.channel: row["count"] for row in rows.groupBy("channel").count().collect()}
    assert counts == {"channel-0": 100, "channel-1": 100}
    assert list(json.loads(scene.offsets()[-1])["spool"]) == ["0", "1"]


def committed(scene: Scene) -> list[int] | None:
    """What the running intake has been told."""
    from aqueduct_core.flight.client import IntakeClient
    from aqueduct_core.flight.credentials import Credentials

    with IntakeClient(scene.intake()["flight"], Credentials.for_spool(scene.spool)) as client:
        ends = client.status().committed.get("query")
    return None if ends is None else list(ends)
