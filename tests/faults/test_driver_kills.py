"""The driver and its planner die at chosen places; rows 3, 4, 5 and 11 of the matrix."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.faults.batches import batches, end_of, everything, keeper, logged
from tests.faults.drivers import Plan
from tests.faults.ledger import balance
from tests.faults.load import Load
from tests.faults.producer import Flow
from tests.faults.queries import PATIENCE, committed, drained
from tests.faults.tables import SinkTable
from tests.spark.scene import Scene
from tests.support.ports import free_port
from tests.support.waiting import ended, wait_until

pytestmark = pytest.mark.spark

FLOWS = [Flow("ordered", "readings", 400.0, 100), Flow("unordered", "events", 100.0, 100)]


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    plan = Plan(tmp_path, listen=f"127.0.0.1:{free_port()}")
    yield plan
    plan.close()


def go_on(scene: Scene, plan: Plan) -> Any:
    """The same query again, in the session of the tests, with the sink that keeps batches."""
    scene.spool, scene.table, scene.checkpoint = plan.spool, plan.table, plan.checkpoint
    scene.options = dict(plan.options)
    writer = scene.frame().writeStream.foreachBatch(keeper(plan.table))
    return scene.follow(writer.option("checkpointLocation", str(plan.checkpoint)).start())


@pytest.mark.long
def test_fault_03_driver_killed_between_offset_log_and_commit_log(
    scene: Scene, plan: Plan, producers: Load
) -> None:
    """The same batch comes again with the same rows in the same order, and nothing else does."""
    plan.sink = "batches-hold"
    driver = plan.start()
    producers.start(f"aqueduct://{plan.intake()['listen']}", "p", flows=FLOWS)
    producers.more_acks(500)
    (plan.home / "hold").touch()
    held = int(driver.said("held ", PATIENCE).split()[1])
    assert logged(plan.checkpoint, "offsets")[-1] == held
    assert held not in logged(plan.checkpoint, "commits")
    first = batches(plan.table)[held]
    end = end_of(plan.checkpoint, held)
    driver.kill()
    shutil.rmtree(plan.table / f"batch={held}")
    query = go_on(scene, plan)
    wait_until(lambda: held in logged(plan.checkpoint, "commits"), PATIENCE, "the batch again")
    assert end_of(plan.checkpoint, held) == end
    again = batches(plan.table)[held]
    assert first.num_rows > 0
    assert again.equals(first)
    entries = producers.finish()
    balance(drained(query, lambda: everything(plan.table), entries), entries)


@pytest.mark.long
def test_fault_04_driver_killed_behind_the_commit_log(
    scene: Scene, plan: Plan, producers: Load
) -> None:
    """The batch is in Spark's log, and the source never heard of it: the next run commits it, and
    reads nothing of it again."""
    plan.sink = "batches-freeze"
    driver = plan.start()
    producers.start(f"aqueduct://{plan.intake()['listen']}", "p", flows=FLOWS)
    producers.more_acks(500)
    (plan.home / "hold").touch()
    frozen = int(driver.said("frozen ", PATIENCE).split()[1])
    wait_until(lambda: frozen in logged(plan.checkpoint, "commits"), PATIENCE, "the commit log")
    assert logged(plan.checkpoint, "offsets")[-1] == frozen
    driver.kill(driver.planners())
    end = end_of(plan.checkpoint, frozen)
    behind = committed(plan.spool)
    assert all(a <= b for a, b in zip(behind, end, strict=True))
    assert behind != end
    written = plan.table / f"batch={frozen}"
    stamp = written.stat().st_mtime_ns
    query = go_on(scene, plan)
    wait_until(
        lambda: all(a >= b for a, b in zip(committed(plan.spool), end, strict=True)),
        PATIENCE,
        "the commit of the batch",
    )
    entries = producers.finish()
    balance(drained(query, lambda: everything(plan.table), entries), entries)
    assert written.stat().st_mtime_ns == stamp


@pytest.mark.long
def test_fault_05_planner_killed_fails_the_query_and_another_run_goes_on(
    scene: Scene, producers: Load
) -> None:
    """kill -9, then SIGTERM: the query ends with an error soon, and the cursor is taken over."""
    scene.options["listen"] = f"127.0.0.1:{free_port()}"
    query = scene.start()
    producers.start(scene.endpoint(), "p", flows=FLOWS)
    table = SinkTable(scene.table)
    for number in (signal.SIGKILL, signal.SIGTERM):
        producers.more_acks(200)
        [planner] = scene.planners()
        before = scene.intake()
        os.kill(planner, number)
        print(f"{number.name}: the query ended after {end_of_query(query):.1f} s")
        ended(planner, PATIENCE)
        query = scene.start()
        await_more(query, table)
        assert scene.intake()["pid"] == before["pid"], "the intake was adopted"
    entries = producers.finish()
    balance(drained(query, table.read, entries), entries)


@pytest.mark.long
def test_fault_11_a_query_stopped_in_mid_batch_goes_on_exactly(
    scene: Scene, producers: Load, tmp_path: Path
) -> None:
    """A task has read rows and not given them back when the query is stopped."""
    inside, hold = str(tmp_path / "inside"), str(tmp_path / "hold")

    def slow(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            yield part
            for _ in range(int(PATIENCE * 10)):
                if not os.path.exists(hold):
                    break
                Path(inside).touch()
                time.sleep(0.1)

    frame = scene.frame()
    query = scene.start(frame.mapInArrow(slow, frame.schema))
    producers.start(scene.endpoint(), "p", flows=FLOWS)
    producers.more_acks(200)
    Path(hold).touch()
    wait_until(Path(inside).exists, PATIENCE, "a task in the middle of its rows")
    begun = time.monotonic()
    query.stop()
    print(f"stopped in {time.monotonic() - begun:.1f} s")
    open_batch = logged(scene.checkpoint, "offsets")[-1]
    assert open_batch not in logged(scene.checkpoint, "commits")
    Path(hold).unlink()
    again = scene.start(frame.mapInArrow(slow, frame.schema))
    wait_until(lambda: open_batch in logged(scene.checkpoint, "commits"), PATIENCE, "the batch")
    entries = producers.finish()
    table = SinkTable(scene.table)
    balance(drained(again, table.read, entries), entries)


def end_of_query(query: Any) -> float:
    """Seconds until it failed."""
    begun = time.monotonic()
    wait_until(lambda: not query.isActive, PATIENCE, "the end of the query")
    assert query.exception() is not None
    return time.monotonic() - begun


def await_more(query: Any, table: SinkTable) -> None:
    rows = table.rows

    def moved() -> bool:
        assert query.exception() is None, query.exception()
        return table.rows > rows

    wait_until(moved, PATIENCE, "rows of the next run")
