"""Queries, intakes and drivers that end and come back: the table stays exact."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.spark.producing import Flow, numbered, produce
from tests.spark.scene import PATIENCE, Scene
from tests.support.ports import free_port
from tests.support.waiting import LONG, Output, ancestors, ended, environment, wait_until

pytestmark = pytest.mark.spark


def assert_exact(rows: DataFrame, count: int) -> None:
    """Each message once, in the order of the offsets, none missing: the ledger shows zeros."""
    [ledger] = rows.agg(
        f.count("*").alias("rows"),
        f.countDistinct("messageNum").alias("numbers"),
        f.max("messageNum").alias("last"),
        f.countDistinct("value").alias("values"),
    ).collect()
    lost, duplicates = count - ledger.numbers, ledger.rows - ledger.numbers
    assert (lost, duplicates) == (0, 0)
    assert ledger.last == count - 1
    assert ledger["values"] == count
    wrong = rows.where(
        f.col("value").cast("string") != f.concat(f.lit("message "), f.col("messageNum"))
    )
    assert wrong.count() == 0
    numbers = [row.messageNum for row in rows.orderBy("partition", "offset").collect()]
    assert sum(1 for a, b in itertools.pairwise(numbers) if b < a) == 0


def flows(flow: Flow) -> None:
    """Wait until more messages are acked than were sent by now."""
    sent = flow.messages
    wait_until(lambda: flow.acked > sent + 50, PATIENCE, "a flow of acked messages")


@pytest.mark.long
def test_a_restart_within_the_lease_adopts_the_intake(scene: Scene) -> None:
    first = scene.start()
    produce(scene.endpoint(), numbered(300), name="one")
    scene.await_rows(first, 300)
    before = scene.intake()
    first.stop()
    produce(scene.endpoint(), numbered(300), name="two")
    second = scene.start()
    rows = scene.await_rows(second, 600)
    after = scene.intake()
    assert (after["pid"], after["epoch"]) == (before["pid"], before["epoch"])
    assert_exact(rows.where("channel = 'one'"), 300)
    assert_exact(rows.where("channel = 'two'"), 300)


@pytest.mark.long
def test_a_restart_after_the_lease_launches_anew(scene: Scene) -> None:
    scene.lease = "10s"  # no shorter: a busy machine must not let it run out under `produce`
    first = scene.start()
    produce(scene.endpoint(), numbered(300), name="one")
    scene.await_rows(first, 300)
    before = scene.intake()
    first.stop()
    ended(before["pid"], PATIENCE)
    second = scene.start()
    produce(scene.endpoint(), numbered(300), name="two")
    rows = scene.await_rows(second, 600)
    after = scene.intake()
    assert after["id"] == before["id"]
    assert after["epoch"] > before["epoch"]
    assert_exact(rows.where("channel = 'one'"), 300)
    assert_exact(rows.where("channel = 'two'"), 300)
    launches = [json.loads(end)["launch"] for end in scene.offsets()]
    assert launches[-1] == 2


@pytest.mark.long
def test_a_batch_that_was_not_committed_gives_the_same_rows(scene: Scene) -> None:
    """FAULTS 3: the offsets are logged, the commit is not, and the intake is gone by then."""

    def keep(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(scene.table / f"batch={number}"))

    def table() -> DataFrame:
        return scene.spark.read.parquet(str(scene.table)).where("channel = 'readings'")

    def run() -> None:
        writer = scene.frame().writeStream.foreachBatch(keep)
        writer = writer.option("checkpointLocation", str(scene.checkpoint))
        query = scene.follow(writer.start())

        def complete() -> bool:
            query.processAllAvailable()
            return scene.table.is_dir() and table().count() >= 200

        scene.intake()
        if not commits(scene.checkpoint):
            produce(scene.endpoint(), numbered(200))
        wait_until(complete, PATIENCE, "200 rows")
        query.stop()

    run()
    scene.retire()
    [replayed] = [row.batch for row in table().select("batch").distinct().collect()]
    first = table().orderBy("offset").collect()
    for number in [n for n in commits(scene.checkpoint) if n >= replayed]:
        forget(scene.checkpoint / "commits", number)
        if number > replayed:
            forget(scene.checkpoint / "offsets", number)
    shutil.rmtree(scene.table / f"batch={replayed}")
    run()
    assert table().where(f.col("batch") == replayed).orderBy("offset").collect() == first


def test_an_intake_killed_in_mid_stream_loses_nothing(scene: Scene) -> None:
    scene.options["listen"] = f"127.0.0.1:{free_port()}"
    query = scene.start()
    with Flow(scene.endpoint()) as flow:
        for _ in range(2):
            flows(flow)
            before = scene.intake()
            scene.kill(before["pid"])
            assert scene.intake()["epoch"] > before["epoch"]
        flows(flow)
        flow.finish()
    assert flow.reconnects >= 2
    assert_exact(scene.await_rows(query, flow.messages), flow.messages)


@contextlib.contextmanager
def driver(scene: Scene, lease: str) -> Iterator[list[int]]:
    """A driver in processes of its own; gives their ids, first of the driver, then of its JVM."""
    arguments = [scene.options["listen"], scene.spool, scene.checkpoint, scene.table, lease]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.spark.driver", *map(str, arguments)],
        stdout=subprocess.PIPE,
        env=environment(),
    )
    output = Output(process)
    try:
        yield [process.pid, int(output.wait_for("jvm ", PATIENCE).split()[-1])]
    finally:
        process.kill()
        process.wait(PATIENCE)
        output.close()


def kill_all(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        ended(pid, PATIENCE)


@pytest.mark.long
def test_a_driver_killed_between_batches_goes_on_exactly(scene: Scene) -> None:
    scene.options["listen"] = f"127.0.0.1:{free_port()}"
    with driver(scene, "10m") as pids:
        before = scene.intake()
        # The intake is no child of the driver, so it outlives it.
        assert not set(pids) & set(ancestors(before["pid"]))
        with Flow(scene.endpoint(), idle=30.0) as flow:
            logged = len(commits(scene.checkpoint)) + 3
            wait_until(lambda: len(commits(scene.checkpoint)) > logged, PATIENCE, "some batches")
            kill_all(pids)
            query = scene.start()
            flows(flow)
            flow.finish()
        rows = scene.await_rows(query, flow.messages)
        assert scene.intake()["pid"] == before["pid"]
        assert flow.reconnects == 0
        assert_exact(rows, flow.messages)


@pytest.mark.long
def test_nothing_stays_behind_a_killed_driver(scene: Scene) -> None:
    scene.options["listen"] = f"127.0.0.1:{free_port()}"
    with driver(scene, "2s") as pids:
        intake = scene.intake()["pid"]
        planners = scene.planners(jvm=pids[1])
        assert planners
        kill_all(pids)
        for pid in [*planners, intake]:
            ended(pid, LONG)


def forget(log: Path, number: int) -> None:
    """Remove the entry of a batch, as if the driver had died before it was written."""
    for name in (f"{number}", f".{number}.crc", f"{number}.crc"):
        (log / name).unlink(missing_ok=True)


def commits(checkpoint: Path) -> list[int]:
    folder = checkpoint / "commits"
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())
