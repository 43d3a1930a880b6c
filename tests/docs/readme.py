"""The blocks of README.md, and what a user does with them, in a folder of a user."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

import pyarrow.parquet as pq

from tests.docs import blocks as page
from tests.docs.plain_place import PlainPlace
from tests.support.waiting import LONG, Output, ended, intake_status

ADDRESS = "127.0.0.1:4433"
FLIGHT = "127.0.0.1:4434"


def blocks(heading: str, language: str) -> list[str]:
    """The code blocks of ``language`` below ``heading``."""
    found = [
        each.text
        for each in page.blocks("README.md")
        if (each.heading, each.language) == (heading, language)
    ]
    assert found, f"no {language} block below {heading}"
    return found


def block(heading: str, language: str) -> str:
    return blocks(heading, language)[0]


def the_first_stream_runs(plain: PlainPlace, **variables: str) -> str:
    """The lines of the example that make its session."""
    code = block("A first stream", "python")
    assert ADDRESS in code
    (plain.folder / "first.py").write_text(code.replace(ADDRESS, "127.0.0.1:0"))
    run, send = blocks("A first stream", "sh")
    process = plain.start(run, **variables)
    output = Output(process)
    try:
        status = intake_status(plain.folder / "first-stream" / "spool", 0, seconds=LONG)
        assert ADDRESS in send
        plain.run(send.replace(ADDRESS, status["listen"]))
        line = output.wait_for("hello", seconds=LONG)
        assert "greetings" in line
    finally:
        stop(process, output)
    os.kill(status["pid"], signal.SIGTERM)
    ended(status["pid"], LONG)
    return code.split("rows = ", 1)[0]


def an_intake_outlives_its_query(plain: PlainPlace) -> list[str]:
    """The lines that two runs of a query show, one before and one after it was deployed anew; what
    the second one shows was sent while there was none."""
    certificate, conf, run = block("An intake that outlives a redeploy", "sh").splitlines()
    plain.run(f"{certificate}\n{conf}")
    settings = plain.folder / "intake.toml"
    text = settings.read_text("utf-8")
    for address in ("0.0.0.0:4433", "0.0.0.0:4434"):
        assert address in text
        text = text.replace(address, "127.0.0.1:0")
    settings.write_text(text)
    intake = plain.start(run)
    output = Output(intake)
    try:
        ready = dict(
            part.split("=", 1) for part in output.wait_for("ready ", LONG).split() if "=" in part
        )
        first = block("A first stream", "python")
        rows = block("An intake that outlives a redeploy", "python")
        assert FLIGHT in rows
        begin, _, rest = first.partition("rows = ")
        end = rest.partition("lines = ")[2]
        query = f"{begin}{rows}lines = {end}".replace("first-stream", "deployed")
        (plain.folder / "query.py").write_text(query.replace(FLIGHT, ready["intakes"]))
        shown = []
        for line in ("one", "two"):
            send = f"echo {line} | .venv/bin/aqueduct send aqueduct://{ready['listen']}"
            plain.run(f"{send} --ca tls/ca.pem --channel greetings")
            process = plain.start(".venv/bin/python query.py")
            printed = Output(process)
            try:
                shown.append(printed.wait_for(line, LONG))
            finally:
                stop(process, printed)
        return shown
    finally:
        stop(intake, output)


def what_is_stored_is_shown(plain: PlainPlace, session: str) -> str:
    (plain.folder / "stored.py").write_text(
        session
        + block("Other ways to read and write", "python")
        + 'stored.selectExpr("CAST(value AS STRING) AS line").show()\n'
        + 'events.select("kind").show()\n'
    )
    return plain.run(".venv/bin/python stored.py").stdout


def a_job_ingests_it(plain: PlainPlace, command: str, **more: str) -> list[dict[str, Any]]:
    """What is in the table of a job, over the spool of the first stream, to its end. It is another
    query and has another certificate, so both are let go by hand first."""
    for act in ("settings first-stream/spool --forget", "cursors first-stream/spool --give query"):
        plain.run(f".venv/bin/aqueduct spool {act}")
    settings = {
        "source.listen": "127.0.0.1:0",
        "source.spool": "first-stream/spool",
        "source.lease": "2s",
        "query.trigger": "availableNow",
    } | {name.replace("__", "."): value for name, value in more.items()}
    added = "".join(f" --set {name}={value}" for name, value in settings.items())
    done = plain.run(command.strip() + added)
    printed = (done.stdout + done.stderr).splitlines()
    told = [line for line in printed if line.startswith("ingest: ")]
    assert told == ["ingest: 2 rows in 1 batches"]  # the entrypoint message and the line
    table = plain.folder / settings.get("sink.path", "table")
    rows: list[dict[str, Any]] = pq.read_table(table, columns=["channel", "value"]).to_pylist()
    return rows


def stop(process: subprocess.Popen[bytes], output: Output) -> None:
    """End a command with all that it has started in its session."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    output.close()
