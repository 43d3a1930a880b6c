"""``aqueduct job bridge`` and ``aqueduct job replay``, one after the other."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_jobs import bridge, config, replay
from aqueduct_jobs.stop_signal import StopSignal
from tests.spark.producing import numbered, produce
from tests.support.intake_process import IntakeProcess, Site
from tests.support.jobs import job_command
from tests.support.ports import free_port
from tests.support.repository import ROOT
from tests.support.waiting import LONG, Output, ended, environment, intake_status

pytestmark = pytest.mark.spark
ROWS = 300


def words(**settings: str) -> list[str]:
    given = {name.replace("__", "."): value for name, value in settings.items()}
    return [word for name, value in given.items() for word in ("--set", f"{name}={value}")]


def run(job: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    empty = folder / "job.toml"
    empty.write_text("")
    return subprocess.run(
        job_command(job, "--config", str(empty), *more),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=2 * LONG,
    )


def stored(intake: IntakeProcess, channel: str) -> list[bytes]:
    rows = sorted(intake.rows(), key=lambda row: (row["partition"], row["offset"]))
    return [row["value"] for row in rows if row["channel"] == channel]


@pytest.mark.long
def test_a_bridge_and_the_replay_of_its_spool(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    site, port = Site(tmp_path / "far"), free_port()
    authority = tmp_path / "authority.pem"
    assert site.client_tls.ca_pem is not None
    authority.write_bytes(site.client_tls.ca_pem)
    with site.intake(lease=None) as far:
        target = {"endpoint__endpoint": far.url, "endpoint__tls__caFile": str(authority)}
        stop = tmp_path / "stop"
        empty = tmp_path / "job.toml"
        empty.write_text("")
        settings = words(
            source__listen=f"127.0.0.1:{port}",
            source__spool=str(tmp_path / "spool"),
            source__lease=f"{LONG:.0f}s",
            source__retention="1h",
            select__columns="value",
            query__checkpointLocation=str(tmp_path / "checkpoint"),
            query__progressFile=str(tmp_path / "progress.json"),
            query__stopFile=str(stop),
            endpoint__channel="bridged",
            **target,
        )
        process = subprocess.Popen(
            job_command("bridge", "--config", str(empty), *settings),
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output = Output(process)
        try:
            output.wait_for("intake 0 listens on", LONG)
            near = intake_status(tmp_path / "spool", 0, LONG)
            produce(f"aqueduct://{near['listen']}", numbered(ROWS), name="readings")
            stop.touch()
            output.wait_for(f"bridge: {ROWS + 1} rows", LONG)  # and the entrypoint message
            assert process.wait(LONG) == 0
            os.kill(near["pid"], signal.SIGTERM)
            ended(near["pid"], LONG)
        finally:
            process.kill()
            process.wait()
            output.close()
        assert stored(far, "bridged") == numbered(ROWS)
        assert json.loads((tmp_path / "progress.json").read_text())["rows"] >= ROWS

        again = words(
            source__spool=str(tmp_path / "spool"),
            select__columns="value",
            pace__mode="rate",
            pace__rowsPerSecond="100",
            endpoint__channel="replayed",
            endpoint__writerId="once-more",
            **target,
        )
        for _ in range(2):  # a second run finds that all is stored
            done = run("replay", tmp_path, *again)
            assert done.returncode == 0, done.stdout + done.stderr
        assert stored(far, "replayed") == numbered(ROWS)
        said = done.stdout + done.stderr
        assert f"replay: step 2: 100 rows, {ROWS} of {ROWS}" in said
        seconds = re.search(rf"replay: {ROWS} rows acked in ([\d.]+) s", said)
        assert seconds is not None
        assert float(seconds[1]) >= 2.0


@pytest.mark.parametrize(
    ("pace", "said"),
    [
        ({"mode": "slow"}, "mode is slow. Write one of original, rate, none"),
        ({"speed": 0}, "speed is 0. Write a number above 0"),
        ({"rowsPerSecond": "many"}, "rowsPerSecond is many. Write a number above 0"),
        ({"step": "inf"}, "step is inf. Write a number above 0"),
    ],
)
def test_a_pace_that_cannot_be(pace: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOption, match=re.escape(said)):
        replay.Pace.parse({"pace": pace})


def test_steps_come_at_their_times() -> None:
    pace = replay.Pace.parse({"pace": {"step": "0.05"}})
    steps = [replay.Step(number, 1) for number in (0, 2, 3)]
    begun = time.monotonic()
    times = [
        (step.number, time.monotonic() - begun) for step, _ in replay.due(steps, pace, StopSignal())
    ]
    assert [number for number, _ in times] == [0, 2, 3]
    assert all(at >= number * 0.05 - 0.001 for number, at in times)


def test_the_files_that_are_shipped_are_read() -> None:
    for name, known in (("bridge", bridge.KNOWN), ("replay", replay.KNOWN)):
        tables = config.load(ROOT / "conf" / f"{name}.toml", [], known)
        assert tables["endpoint"]["endpoint"].startswith("aqueduct://")
