"""What the README shows works as it stands there; only the port and the folder are a test's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.plain_place import PlainPlace
from tests.docs.readme import (
    ADDRESS,
    a_job_ingests_it,
    an_intake_outlives_its_query,
    block,
    blocks,
    the_first_stream_runs,
    what_is_stored_is_shown,
)
from tests.support.repository import ROOT
from tests.support.waiting import LONG, Output, environment

AQUEDUCT = [sys.executable, "-m", "aqueduct_core.cli.main"]
CERTIFICATE = ["--cert", "tls/cert.pem", "--key", "tls/key.pem"]
COMPILED = shutil.ignore_patterns("__pycache__")


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
    ours, sparks = blocks("Jobs", "sh")
    rows = a_job_ingests_it(plain, ours)
    assert {"channel": "greetings", "value": "hello"} in rows
    for folder in ("jobs", "conf"):
        shutil.copytree(ROOT / folder, plain.folder / folder, ignore=COMPILED)
    again = {"source__cursor": "again", "sink__path": "again", "sink__checkpointLocation": "c"}
    assert a_job_ingests_it(plain, sparks, **again) == rows


@pytest.mark.long
@pytest.mark.spark
def test_an_intake_outlives_its_query(plain: PlainPlace) -> None:
    one, two = an_intake_outlives_its_query(plain)
    assert "greetings" in one
    assert "greetings" in two


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
