"""The kinds of streams that Spark runs: views beside each other, standalone intakes, splits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as f

from aqueduct_core.intake.config_file import write_access
from aqueduct_spark.formats.aqueduct.columns import EVENT_COUNTS
from aqueduct_spark.model.schemas import event_schema
from tests.spark.producing import numbered, produce
from tests.spark.scene import Scene
from tests.support.intake_process import Site

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_messages_and_events_of_one_intake(scene: Scene) -> None:
    messages = scene.start()
    before = scene.intake()["pid"]
    messages.processAllAvailable()
    table, checkpoint = scene.table, scene.checkpoint
    scene.table, scene.checkpoint = table.with_name("events"), checkpoint.with_name("events-cp")
    events = scene.start(scene.frame(view="events"))
    outcome = produce(scene.endpoint(), numbered(500), mode="unreliable")
    events_found = scene.await_rows(events, 2)
    events.processAllAvailable()
    assert events_found.schema == event_schema(EVENT_COUNTS)
    reported = json.loads(events.lastProgress["sources"][0]["latestOffset"])
    assert len(reported["spool"]["0"]["to"]) == 1
    scene.table = table
    rows = scene.await_rows(messages, outcome.acked)
    assert rows.count() == outcome.acked
    # Each message that was sent is told of: it is a row, or it was lost.
    while True:
        events.processAllAvailable()
        finished = scene.spark.read.parquet(str(table.with_name("events"))).where(
            "kind = 'finished' and channel = 'readings'"
        )
        if finished.count():
            break
    [counts] = [row["counts"] for row in finished.collect()]
    assert counts["unreliableSent"] == outcome.sent == counts["acked"] + counts["nacked"]
    assert counts["acked"] == rows.count()
    assert scene.intake()["pid"] == before


@pytest.mark.long
def test_standalone_intakes_and_splits(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    site = Site(tmp_path / "site")
    files = write_access(tmp_path, site.credentials)
    with site.intake(lease=None) as intake:
        produce(intake.url, numbered(1_000))
        frame = (
            scene.spark.readStream.format("aqueduct")
            .option("intakes", intake.ready["flight"])
            .option("tls.caFile", str(files.ca_file))
            .option("auth.tokenFile", str(files.token_file))
            .option("minPartitions", "4")
            .option("maxOffsetsPerTrigger", "600")
            .option("minOffsetsPerTrigger", "600")
            .load()
            .withColumn("task", f.spark_partition_id())
        )
        query = scene.start(frame, availableNow=True)
        assert query.awaitTermination(40)
        assert query.exception() is None
        rows = scene.rows()
        assert rows.select("messageNum").distinct().count() == rows.count() == 1_000
        assert {p["numInputRows"] for p in query.recentProgress} == {0, 600, 401}
        assert rows.select("task").distinct().count() >= 4
        assert intake.status().committed == {"query": intake.status().ends}


@pytest.mark.long
def test_no_payload_passes_through_the_planner(scene: Scene) -> None:
    query = scene.start(scene.frame(maxBytesPerTrigger="8m"))
    produce(scene.endpoint(), numbered(10), name="first")
    scene.await_rows(query, 10)
    [planner] = scene.planners()
    before = peak_memory(planner)
    produce(scene.endpoint(), [bytes(1 << 16)] * 1000)
    scene.await_rows(query, 1010)
    assert peak_memory(planner) - before < 16 << 20
    assert max(progress["numInputRows"] for progress in query.recentProgress) < 300


def peak_memory(pid: int) -> int:
    """The most memory in bytes that a process has had resident."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
