"""What the README shows works as it stands there; only the port and the folder are a test's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.docs.plain_place import PlainPlace
from tests.support.repository import ROOT
from tests.support.waiting import LONG, Output, ended, environment, intake_status

AQUEDUCT = [sys.executable, "-m", "aqueduct_core.cli.main"]
CERTIFICATE = ["--cert", "tls/cert.pem", "--key", "tls/key.pem"]
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS = "127.0.0.1:4433"
COMPILED = shutil.ignore_patterns("__pycache__")


def blocks(heading: str, language: str) -> list[str]:
    """The code blocks of ``language`` below ``heading``."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, f"no {language} block below {heading}"
    return found


def block(heading: str, language: str) -> str:
    return blocks(heading, language)[0]


@pytest.mark.spark
def test_the_first_stream_runs(plain: PlainPlace) -> None:
    session = the_first_stream_runs(plain)
    assert "SparkSession" in session


@pytest.mark.long
@pytest.mark.spark
def test_what_the_first_stream_stored_is_shown_and_a_job_ingests_it(plain: PlainPlace) -> None:
    shown = what_is_stored_is_shown(plain, the_first_stream_runs(plain))
    assert "hello" in shown
    assert "finished" in shown
    rows = the_job_ingests_it(plain)
    assert {"channel": "greetings", "value": "hello"} in rows


def the_first_stream_runs(plain: PlainPlace) -> str:
    """The lines of the example that make its session."""
    code = block("A first stream", "python")
    assert ADDRESS in code
    (plain.folder / "first.py").write_text(code.replace(ADDRESS, "127.0.0.1:0"))
    run, send = blocks("A first stream", "sh")
    process = plain.start(run)
    output = Output(process)
    try:
        status = intake_status(plain.folder / "first-stream" / "spool", 0, seconds=LONG)
        assert ADDRESS in send
        plain.run(send.replace(ADDRESS, status["listen"]))
        line = output.wait_for("hello", seconds=LONG)
        assert "greetings" in line
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.close()
    os.kill(status["pid"], signal.SIGTERM)
    ended(status["pid"], LONG)
    return code.split("rows = ", 1)[0]


def what_is_stored_is_shown(plain: PlainPlace, session: str) -> str:
    (plain.folder / "stored.py").write_text(
        session
        + block("Other ways to read and write", "python")
        + 'stored.selectExpr("CAST(value AS STRING) AS line").show()\n'
        + 'events.select("kind").show()\n'
    )
    return plain.run(".venv/bin/python stored.py").stdout


def the_job_ingests_it(plain: PlainPlace) -> list[dict[str, str]]:
    """The command of the section Jobs, over the spool of the first stream, to its end. It is
    another query and has another certificate, so both are let go by hand first."""
    for act in ("settings first-stream/spool --forget", "cursors first-stream/spool --give query"):
        plain.run(f".venv/bin/aqueduct spool {act}")
    for folder in ("jobs", "conf"):
        shutil.copytree(ROOT / folder, plain.folder / folder, ignore=COMPILED)
    command = block("Jobs", "sh").strip()
    settings = {
        "source.listen": "127.0.0.1:0",
        "source.spool": "first-stream/spool",
        "source.lease": "2s",
        "query.trigger": "availableNow",
    }
    added = "".join(f" --set {name}={value}" for name, value in settings.items())
    done = plain.run(command + added)
    told = [line for line in done.stdout.splitlines() if line.startswith("ingest: ")]
    assert told == ["ingest: 2 rows in 1 batches"]  # the entrypoint message and the line
    rows: list[dict[str, str]] = pq.read_table(
        plain.folder / "table", columns=["channel", "value"]
    ).to_pylist()
    return rows


@pytest.mark.long
@pytest.mark.spark
def test_a_job_tells_in_one_line_that_its_spark_finds_no_format(plain: PlainPlace) -> None:
    (plain.folder / "job.toml").write_text("")
    command = f".venv/bin/python '{ROOT}/jobs/ingest.py' --config job.toml"
    done = plain.run(command, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ingest: [DATA_SOURCE_NOT_FOUND]")
    assert "aqueduct doctor" in last


def test_the_asyncio_example_runs(tmp_path: Path) -> None:
    subprocess.run([*AQUEDUCT, "cert", "tls"], cwd=tmp_path, env=environment(), check=True)
    listener = subprocess.Popen(
        [*AQUEDUCT, "listen", "127.0.0.1:0", "-J", "-e", *CERTIFICATE],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = Output(listener)
    try:
        address = output.wait_for("listening on ", seconds=LONG).split()[-1]
        code = block("In Python, without Spark", "python")
        assert ADDRESS in code
        script = tmp_path / "send.py"
        script.write_text(code.replace(ADDRESS, address))
        command = [sys.executable, "-W", "error", str(script)]
        subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=LONG)
        line = json.loads(output.wait_for('"hello"', seconds=LONG))
        assert (line["name"], line["value"]) == ("greetings", "hello")
        assert listener.wait(LONG) == 0
    finally:
        listener.kill()
        listener.wait()
        output.close()
