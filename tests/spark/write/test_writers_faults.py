"""Rows exactly once at an intake whatever becomes of tasks, executors and the driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.cluster import cluster
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG, Output, ended, environment, wait_until

pytestmark = pytest.mark.spark

PATIENCE = LONG
ROWS = 20_000
FAULTS = ("fail", "kill-before", "kill-after", "slow")


@contextmanager
def driver(**given: Any) -> Iterator[tuple[subprocess.Popen[bytes], Output]]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.spark.write.sinking_driver",
            json.dumps(given),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(),
        start_new_session=True,
    )
    output = Output(process)
    try:
        yield process, output
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LONG)
        output.close()


def authority(site: Site, folder: Path) -> str:
    path = folder / "authority.pem"
    assert site.client_tls.ca_pem is not None
    path.write_bytes(site.client_tls.ca_pem)
    return str(path)


def rows_of(intake: IntakeProcess) -> list[dict[str, Any]]:
    """Without the entrypoint messages that only carried channels."""
    return [row for row in intake.rows() if row["channel"] != "0"]


def stored(intake: IntakeProcess) -> int:
    return sum(intake.status().ends)


def assert_in_order(rows: list[dict[str, Any]]) -> None:
    """Offsets rise with the numbers of each ordered channel."""
    last: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda row: (row["partition"], row["offset"])):
        key = (row["producer"], row["channel"])
        assert row["messageNum"] > last.get(key, -1)
        last[key] = row["messageNum"]


@pytest.mark.long
def test_fault_07_and_08_attempts_that_fail_die_or_run_twice(tmp_path: Path) -> None:
    """A task that fails twice, an executor killed before and after the last ack, speculation."""
    site = Site(tmp_path)
    # speculation starts the second attempt on another host
    hosts = cluster(tmp_path / "cluster", "127.0.0.2", "127.0.0.3")
    with site.intake(lease=600.0) as intake, hosts as spark:
        given = {"endpoint": intake.url, "ca": authority(site, tmp_path), "rows": ROWS}
        given |= {"master": spark.url, "faults": FAULTS}
        with driver(job="faults", **given) as (process, output):
            for fault in FAULTS:
                output.wait_for(f"done {fault}", PATIENCE)
            assert process.wait(LONG) == 0
        rows = rows_of(intake)
        # each job was whole, and its repeats were seen
        for fault in FAULTS:
            values = Counter(
                int(row["value"]) for row in rows if row["producer"].startswith(f"{fault}/")
            )
            assert len(values) == ROWS, f"{fault}: {ROWS - len(values)} rows lost"
            assert set(values.values()) == {1}, f"{fault}: rows twice"
        assert_in_order(rows)


@pytest.mark.long
def test_fault_03_the_driver_is_killed_in_mid_batch(tmp_path: Path) -> None:
    site, count, files = Site(tmp_path), 40_000, 3
    source = tmp_path / "input"
    source.mkdir()
    for file in range(files):
        lines = (str(file * count + n) for n in range(count))
        (source / f"{file}.txt").write_text("\n".join(lines) + "\n")
    with site.intake(lease=600.0) as intake:
        given = {
            "job": "stream",
            "endpoint": intake.url,
            "ca": authority(site, tmp_path),
            "input": str(source),
            "checkpoint": str(tmp_path / "checkpoint"),
        }
        commits = tmp_path / "checkpoint" / "commits"
        with driver(**given) as (process, output):
            jvm = int(output.wait_for("jvm", PATIENCE).split()[1])
            wait_until(lambda: stored(intake) > count + 1_000, PATIENCE, "the second batch")
            os.kill(jvm, signal.SIGKILL)
            ended(jvm, PATIENCE)
            killed_at = stored(intake)
        done = [path for path in commits.iterdir() if path.name.isdigit()]
        assert killed_at < files * count, "the kill came too late to show anything"
        assert len(done) < files
        with driver(**given) as (process, output):
            output.wait_for("done stream", PATIENCE)
            assert process.wait(LONG) == 0
        rows = rows_of(intake)
        values = Counter(int(row["value"]) for row in rows)
        assert len(values) == files * count
        assert set(values.values()) == {1}
        assert_in_order(rows)
        assert intake.terminate() == 0
