"""Queries that act twice, end, start with nothing new, or lose their disk; rows 9, 10, 12, 14."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tests.faults.batches import end_of, logged
from tests.faults.ledger import balance
from tests.faults.load import Load
from tests.faults.producer import Flow
from tests.faults.queries import PATIENCE, committed, drained, intake_says
from tests.faults.tables import SinkTable
from tests.spark.scene import Scene
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

FLOWS = [Flow("ordered", "readings", 400.0, 100), Flow("unordered", "events", 100.0, 100)]


@pytest.mark.long
def test_fault_09_two_actions_on_a_batch_see_the_same_rows(scene: Scene, producers: Load) -> None:
    """Nothing is cached, producers go on, the intake is killed between the two actions of one
    batch: both actions have the same rows all the same."""
    scene.options["listen"] = f"127.0.0.1:{free_port()}"
    differing: list[int] = []
    sizes: list[int] = []
    victim: list[int] = []

    def twice(batch: DataFrame, number: int) -> None:
        first = batch.orderBy("partition", "offset").collect()
        if victim and first:
            scene.kill(victim.pop())
        second = batch.orderBy("partition", "offset").collect()
        batch.write.mode("append").parquet(str(scene.table))
        if first != second or batch.count() != len(first):
            differing.append(number)
        sizes.append(len(first))

    writer = scene.frame().writeStream.foreachBatch(twice)
    query = scene.follow(writer.option("checkpointLocation", str(scene.checkpoint)).start())
    producers.start(scene.endpoint(), "p", flows=FLOWS)
    producers.more_acks(300)
    victim.append(scene.intake()["pid"])
    wait_until(lambda: not victim, PATIENCE, "a batch during which the intake was killed")
    producers.more_acks(300)
    entries = producers.finish()
    acked = sum(entry.acked_count for entry in entries)

    def seen() -> bool:
        assert query.exception() is None, query.exception()
        return sum(sizes) >= acked

    wait_until(seen, PATIENCE, "all rows")
    rows = scene.spark.read.parquet(str(scene.table)).toArrow()
    balance(rows, entries)
    assert differing == []
    assert len([size for size in sizes if size]) > 1


@pytest.mark.long
def test_fault_10_available_now_ends_and_has_everything_once(scene: Scene, producers: Load) -> None:
    """Run to the end on a source that has become quiet, then run again with nothing new."""
    first = scene.start()
    producers.start(scene.endpoint(), "p", flows=FLOWS)
    producers.more_acks(300)
    first.stop()
    entries = producers.finish()
    table = SinkTable(scene.table)
    for _ in range(2):
        query = scene.start(availableNow=True)
        assert query.awaitTermination(PATIENCE)
        assert query.exception() is None
        balance(table.read(), entries)
    ends = end_of(scene.checkpoint, logged(scene.checkpoint, "offsets")[-1])
    assert ends == intake_says(scene.spool).ends
    # The last batch is committed at the intake as well, though no batch follows it.
    assert committed(scene.spool) == ends


@pytest.mark.long
def test_fault_12_restarts_of_a_stateful_query_with_nothing_new(
    scene: Scene, producers: Load
) -> None:
    """Counts by channel with a watermark: runs without new data make no row anew, and offsets
    never go down."""

    def counts() -> DataFrame:
        return (
            scene.frame()
            .where("channel != '0'")
            .withWatermark("timestamp", "0 seconds")
            .groupBy(f.window("timestamp", "1 second"), "channel")
            .count()
        )

    query = scene.start(counts())
    producers.start(scene.endpoint(), "p", flows=FLOWS)
    producers.more_acks(600)
    producers.finish()
    intake = intake_says(scene.spool)
    wait_until(lambda: last_end(scene, query) == intake.ends, PATIENCE, "the end of the data")
    query.processAllAvailable()
    query.stop()
    before = scene.spark.read.parquet(str(scene.table)).collect()
    for _ in range(2):
        query = scene.start(counts())
        query.processAllAvailable()
        query.stop()
    after = scene.spark.read.parquet(str(scene.table))
    assert sorted(after.collect()) == sorted(before)
    assert after.select("window", "channel").distinct().count() == after.count()
    numbers = logged(scene.checkpoint, "offsets")
    ends = [end_of(scene.checkpoint, number) for number in numbers if has_end(scene, number)]
    assert all(a <= b for x, y in itertools.pairwise(ends) for a, b in zip(x, y, strict=True))


@pytest.mark.long
def test_fault_14_a_full_disk_under_the_checkpoint(
    scene: Scene, producers: Load, tmp_path: Path
) -> None:
    """The query fails, the spool keeps everything; with space again it goes on exactly."""
    with small_disk(tmp_path / "disk") as disk:
        scene.checkpoint = disk.path / "checkpoint"
        scene.options["listen"] = f"127.0.0.1:{free_port()}"
        query = scene.start()
        producers.start(scene.endpoint(), "p", flows=FLOWS)
        table = SinkTable(scene.table)
        wait_until(lambda: table.rows > 100, PATIENCE, "rows")
        disk.fill()
        wait_until(lambda: not query.isActive, PATIENCE, "the end of the query")
        assert query.exception() is not None
        producers.more_acks(200)
        disk.free()
        query = scene.start()
        entries = producers.finish()
        balance(drained(query, table.read, entries), entries)
        query.stop()


def last_end(scene: Scene, query: Any) -> tuple[int, ...]:
    assert query.exception() is None, query.exception()
    numbers = logged(scene.checkpoint, "commits")
    return end_of(scene.checkpoint, numbers[-1]) if numbers and has_end(scene, numbers[-1]) else ()


def has_end(scene: Scene, number: int) -> bool:
    return '"to"' in (scene.checkpoint / "offsets" / str(number)).read_text()


class SmallDisk:
    """A directory whose disk can be full: a small file system, or, without the right to mount
    one, a directory that takes no new files."""

    def __init__(self, path: Path, mounted: bool) -> None:
        self.path = path
        self._mounted = mounted
        self._modes: dict[Path, int] = {}

    def fill(self) -> None:
        if not self._mounted:
            for folder in [self.path, *(p for p in self.path.rglob("*") if p.is_dir())]:
                self._modes[folder] = folder.stat().st_mode
                folder.chmod(0o555)
            return
        with contextlib.suppress(OSError), (self.path / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        for folder, mode in self._modes.items():
            folder.chmod(mode)
        (self.path / "ballast").unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[SmallDisk]:
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(path)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, check=False).returncode == 0
    disk = SmallDisk(path, mounted)
    try:
        yield disk
    finally:
        disk.free()
        if mounted:
            subprocess.run(["umount", "-l", str(path)], check=True)
