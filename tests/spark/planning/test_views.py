"""Filters and views of a query and its spool, from producer to DataFrame."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame

from aqueduct_spark.formats.aqueduct.columns import EVENT_COUNTS
from aqueduct_spark.model.schemas import event_schema
from tests.spark.producing import numbered, produce
from tests.spark.scene import PATIENCE, Scene
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark


def stored(scene: Scene, **options: str) -> DataFrame:
    return scene.spark.read.format("aqueduct").options(spool=str(scene.spool), **options).load()


def test_wanted_channels_and_what_became_of_all(scene: Scene) -> None:
    query = scene.start(scene.frame(channelsPattern="want.*", maxOffsetsPerTrigger="250"))
    endpoint = scene.endpoint()
    produce(endpoint, numbered(400), name="wanted")
    produce(endpoint, numbered(300), name="other")
    lossy = produce(endpoint, numbered(200), name="lossy", mode="unreliable")
    wanted = scene.await_rows(query, 400)
    query.processAllAvailable()
    assert wanted.count() == 400
    assert {row.channel for row in wanted.select("channel").distinct().collect()} == {"wanted"}
    # Offsets are those of the spool, where the other channels have theirs.
    assert wanted.selectExpr("partition", "offset").distinct().count() == 400

    def ended() -> bool:
        return stored(scene, view="events").where("kind = 'disconnected'").count() == 3

    wait_until(ended, PATIENCE, "the events of three producers")
    events = stored(scene, view="events", channels="wanted,lossy")
    assert events.schema == event_schema(EVENT_COUNTS)
    finished = {row.channel: row.counts for row in events.where("kind = 'finished'").collect()}
    assert finished["wanted"].reliableSent == finished["wanted"].reliableStored == 400
    counts = finished["lossy"]
    assert counts.unreliableSent == lossy.sent == 200
    assert counts.acked + counts.nacked == 200
    assert counts.acked == lossy.acked

    # A stream of the events is another query on the same spool, with a cursor of its own.
    all_events = stored(scene, view="events")
    second = (
        scene.frame(view="events")
        .writeStream.format("memory")
        .queryName("events_of_scene")
        .option("checkpointLocation", str(scene.checkpoint) + "-events")
        .trigger(availableNow=True)
        .start()
    )
    scene.follow(second)
    assert second.awaitTermination(int(PATIENCE))
    table = scene.spark.table("events_of_scene")
    assert table.exceptAll(all_events).count() == 0
    assert table.count() == all_events.count()
    assert table.select("offset").distinct().count() == table.count()

    status = stored(scene, view="status").orderBy("partition").collect()
    assert {row.state for row in status} == {"running"}
    assert set(status[0].cursors) == {"query"}
