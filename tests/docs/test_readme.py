"""What the README shows works as it stands there; only the port and the folder are a test's own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import Output, environment, intake_status

AQUEDUCT = [sys.executable, "-m", "aqueduct_core.cli.main"]
CERTIFICATE = ["--cert", "tls/cert.pem", "--key", "tls/key.pem"]
ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
ADDRESS = "127.0.0.1:4433"


def block(heading: str, language: str) -> str:
    """The first code block of ``language`` below ``heading``."""
    section = README.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    found = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert found, f"no {language} block below {heading}"
    return found.group(1)


@pytest.mark.spark
def test_the_first_stream_runs(tmp_path: Path) -> None:
    code = block("A first stream", "python")
    assert ADDRESS in code
    script = tmp_path / "first.py"
    script.write_text(code.replace(ADDRESS, "127.0.0.1:0"))
    process = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    output = Output(process)
    try:
        status = intake_status(tmp_path / "first-stream" / "spool", 0, seconds=90)
        command = block("A first stream", "sh").replace(ADDRESS, status["listen"])
        words = command.strip()
        assert ".venv/bin/aqueduct send" in words
        words = words.replace(".venv/bin/aqueduct", f"{sys.executable} -m aqueduct_core.cli.main")
        subprocess.run(["sh", "-c", words], cwd=tmp_path, check=True, timeout=60)
        line = output.wait_for("hello", seconds=60)
        assert "greetings" in line
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        output.close()
    os.kill(status["pid"], signal.SIGTERM)
    shown = what_is_stored(tmp_path)
    assert "hello" in shown
    assert "finished" in shown


def what_is_stored(folder: Path) -> str:
    """What the bounded reads of the README show of the first stream."""
    session = block("A first stream", "python").split("rows = ", 1)[0]
    script = folder / "stored.py"
    script.write_text(
        session
        + block("Other ways to read and write", "python")
        + 'stored.selectExpr("CAST(value AS STRING) AS line").show()\n'
        + 'events.select("kind").show()\n'
    )
    command = [sys.executable, str(script)]
    run = subprocess.run(command, cwd=folder, capture_output=True, timeout=120, check=True)
    return run.stdout.decode()


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
        address = output.wait_for("listening on ", seconds=20).split()[-1]
        code = block("In Python, without Spark", "python")
        assert ADDRESS in code
        script = tmp_path / "send.py"
        script.write_text(code.replace(ADDRESS, address))
        command = [sys.executable, "-W", "error", str(script)]
        subprocess.run(command, cwd=tmp_path, env=environment(), check=True, timeout=30)
        line = json.loads(output.wait_for('"hello"', seconds=20))
        assert (line["name"], line["value"]) == ("greetings", "hello")
        assert listener.wait(20) == 0
    finally:
        listener.kill()
        listener.wait()
        output.close()
