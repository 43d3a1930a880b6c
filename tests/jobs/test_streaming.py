"""A job that runs a stream is stopped as a terminal or a service manager does it, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.producing import numbered, produce
from tests.support.jobs import job_command
from tests.support.waiting import LONG, Output, ended, environment, intake_status

pytestmark = pytest.mark.spark


def run(
    folder: Path, producer: str, rows: list[bytes], stop: Callable[[subprocess.Popen[bytes]], None]
) -> str:
    """The last line of ``aqueduct job ingest``, stopped once the rows are in a batch."""
    settings = {
        "source.listen": "127.0.0.1:0",
        "source.spool": folder / "spool",
        "source.lease": f"{LONG:.0f}s",
        "source.tls.selfSigned": "true",
        "sink.path": folder / "table",
        "sink.checkpointLocation": folder / "checkpoint",
    }
    (folder / "ingest.toml").write_text("")
    words = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    process = subprocess.Popen(
        job_command("ingest", "--config", str(folder / "ingest.toml"), *words),
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = Output(process)
    try:
        status = intake_status(folder / "spool", 0, LONG)
        produce(f"aqueduct://{status['listen']}", rows, producer=producer)
        output.wait_for(" rows in ", LONG)
        stop(process)
        assert process.wait(LONG) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        output.close()
    text = "\n".join(output.lines)
    assert "Traceback" not in text
    assert "ERROR" not in text
    return output.lines[-1]


@pytest.mark.long
def test_a_stream_is_stopped_in_good_order_and_goes_on(tmp_path: Path) -> None:
    first = run(tmp_path, "a", numbered(100), lambda job: os.killpg(job.pid, signal.SIGINT))
    second = run(tmp_path, "b", numbered(100, 100), lambda job: job.terminate())
    for line in (first, second):
        assert line.startswith("ingest: ")
        assert " batches" in line
    table = pq.read_table(tmp_path / "table", columns=["channel", "value"]).to_pylist()
    values = sorted(row["value"] for row in table if row["channel"] == "readings")
    assert values == sorted(numbered(200))
    status = intake_status(tmp_path / "spool", 0, LONG)
    os.kill(status["pid"], signal.SIGTERM)
    ended(status["pid"], LONG)
