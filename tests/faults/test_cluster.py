"""A standalone cluster of two workers: executors that die in mid-read, and attempts that race;
rows 6 and 8 of the matrix."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.batches import logged
from tests.faults.cluster import Cluster, cluster
from tests.faults.drivers import Driver, Plan
from tests.faults.ledger import balance
from tests.faults.load import Load
from tests.faults.places import places
from tests.faults.producer import Flow
from tests.faults.tables import SinkTable
from tests.support.ports import free_port
from tests.support.processes import descendants
from tests.support.waiting import LONG, alive, ended, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.long]

PATIENCE = LONG
FLOWS = [
    Flow("ordered", "readings", 300.0, 100),
    Flow("unordered", "events", 100.0, 100),
    Flow("ordered", "more", 100.0, 100),
    Flow("unordered", "rest", 100.0, 100),
]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "1s",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.task.duration.threshold": "3s",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
}


@pytest.fixture
def two_hosts(tmp_path: Path) -> Iterator[Cluster]:
    with cluster(tmp_path / "cluster", "127.0.0.2", "127.0.0.3") as made:
        yield made


@pytest.fixture
def plan(tmp_path: Path) -> Iterator[Plan]:
    plan = Plan(tmp_path, listen=f"127.0.0.1:{free_port()}")
    yield plan
    plan.close()


def test_fault_06_08_executors_that_die_and_attempts_that_race(
    two_hosts: Cluster, plan: Plan, producers: Load, tmp_path: Path
) -> None:
    """The task of a killed executor is done by another attempt; of two attempts at once, one
    counts. The table has each row once either way, and the intake goes on without its executor."""
    attempts = tmp_path / "attempts"
    attempts.mkdir()
    plan.master, plan.conf, plan.attempts = two_hosts.url, SPECULATION, attempts
    driver = plan.start()
    producers.start(f"aqueduct://{plan.intake()['listen']}", "p", "q", flows=FLOWS)
    table = SinkTable(plan.table)
    wait_until(lambda: table.rows > 200, PATIENCE, "rows")
    show(two_hosts, plan, driver, "before")
    killed = kill_in_mid_read(two_hosts, attempts)
    producers.more_acks(100)
    go_on(plan, driver)
    wait_until(lambda: len(executors(two_hosts)) == 2, PATIENCE, "an executor in its place")
    assert killed not in executors(two_hosts)
    show(two_hosts, plan, driver, f"after kill -9 of executor process {killed}")
    raced = race(attempts)
    go_on(plan, driver)
    print(f"two attempts at once: batch and partition {raced}")
    entries = producers.finish()
    acked = sum(entry.acked_count for entry in entries)
    wait_until(lambda: table.rows >= acked, PATIENCE, "all rows")
    balance(table.read(), entries)
    assert driver.running


def kill_in_mid_read(two_hosts: Cluster, attempts: Path) -> int:
    """kill -9 of an executor whose task has read some of its rows; its process id."""
    task = held(attempts)
    worker = int((attempts / task).read_text())
    [victim] = [pid for pid in executors(two_hosts) if worker in descendants(pid)]
    os.kill(victim, signal.SIGKILL)
    ended(victim, PATIENCE)
    (attempts / "held").unlink()
    batch, partition, _ = task.split("-")

    def again() -> bool:
        return any(int(path.name.split("-")[2]) for path in attempts.glob(f"{batch}-{partition}-*"))

    wait_until(again, PATIENCE, "another attempt of the task")
    return victim


def race(attempts: Path) -> str:
    """Wait until Spark runs a second attempt beside a slow one, and that one has won."""
    task = held(attempts)
    batch, partition, _ = task.split("-")

    def second() -> bool:
        return any(int(path.name.split("-")[2]) for path in attempts.glob(f"{batch}-{partition}-*"))

    wait_until(second, PATIENCE, "a speculative attempt")
    assert alive(int((attempts / task).read_text())), "the first attempt still runs"
    (attempts / "held").unlink()
    return f"{batch}-{partition}"


def held(attempts: Path) -> str:
    """Hold a task from now on; its name, once it is in the middle of its rows."""
    (attempts / "hold").touch()
    file = attempts / "held"
    wait_until(file.exists, PATIENCE, "a task that is held")
    return file.read_text()


def go_on(plan: Plan, driver: Driver) -> None:
    """Two more batches are committed, by the same driver."""
    seen = len(logged(plan.checkpoint, "commits"))

    def more() -> bool:
        assert driver.running, driver.error
        return len(logged(plan.checkpoint, "commits")) >= seen + 2

    wait_until(more, PATIENCE, "two more batches")


def executors(two_hosts: Cluster) -> list[int]:
    return [pid for found in two_hosts.executors().values() for pid in found]


def show(two_hosts: Cluster, plan: Plan, driver: Driver, title: str) -> None:
    print(f"{title}:")
    intake = [plan.intake()["pid"]]
    for place in places(driver.jvm, driver.planners(), executors(two_hosts), intake):
        print(f"  {place}")
