"""The main job end to end, as ``aqueduct demo`` runs it, and what is left when it is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from aqueduct_jobs.demo import run
from tests.support.jobs import AQUEDUCT
from tests.support.waiting import LONG, alive, ancestors, ended, environment, intake_status

pytestmark = pytest.mark.spark
ZEROS = "lost_after_ack=0 duplicates=0 order_breaks=0"


@pytest.mark.long
def test_the_demo_accounts_for_every_message(tmp_path: Path) -> None:
    command = [*AQUEDUCT, "demo", "--seconds", "4", "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=2 * LONG
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    ledger = done.stdout.strip().splitlines()[-4:]
    assert [line.split()[0] for line in ledger] == ["counters", "load", "processes", "total"]
    for line in ledger:
        assert line.endswith(ZEROS)
        counts = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line)}
        assert counts["sent"] == counts["acked"] + counts["nacked"]
        assert counts["rows"] == counts["acked"] > 0
    load = ledger[1]
    assert int(re.search(r"sent=(\d+)", load).group(1)) >= 4 * 40  # type: ignore[union-attr]
    report = json.loads((tmp_path / "ledger.json").read_text())
    assert [line["channel"] for line in report] == ["counters", "load", "processes", "total"]
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    status = json.loads((tmp_path / "spool" / "intake-0" / "status.json").read_text())
    ended(status["pid"], LONG)


@pytest.mark.long
def test_an_intake_is_no_child_of_the_driver_and_ends_after_its_lease(tmp_path: Path) -> None:
    subprocess.run([*AQUEDUCT, "cert", str(tmp_path / "tls")], check=True, capture_output=True)
    command = [*run.ingest_command(tmp_path), "--set", "source.lease=10s"]
    job = subprocess.Popen(
        command,
        env={**run.environment(), **environment()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        status = intake_status(tmp_path / "spool", 0, seconds=LONG)
        intake = status["pid"]
        assert os.getsid(intake) == intake, "the intake leads a session of its own"
        assert job.pid not in ancestors(intake)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        assert alive(intake), "the intake outlives its driver for the lease"
        ended(intake, LONG)
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
