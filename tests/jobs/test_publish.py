"""``aqueduct job publish``: files to an endpoint, every row acked."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.jobs import AQUEDUCT, job_command
from tests.support.ports import free_port
from tests.support.waiting import LONG, Output, environment

pytestmark = pytest.mark.spark
ROWS = 500


def publish(tmp_path: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    given = {
        "input.format": "csv",
        "input.header": "true",
        "input.path": str(tmp_path / "people.csv"),
        "message.channel": "concat('shelf-', id % 3)",
        "endpoint.tls.caFile": str(tmp_path / "tls" / "ca.pem"),
        "endpoint.ackTimeout": "30s",
    } | {name.replace("__", "."): value for name, value in settings.items()}
    words = [w for name, value in given.items() for w in ("--set", f"{name}={value}")]
    empty = tmp_path / "job.toml"
    empty.write_text("")
    command = job_command("publish", "--config", str(empty), *words)
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=LONG)


@pytest.mark.long
def test_rows_of_a_file_reach_an_endpoint(tmp_path: Path) -> None:
    subprocess.run([*AQUEDUCT, "cert", str(tmp_path / "tls")], check=True, capture_output=True)
    lines = ["id,name"] + [f"{i},name {i}" for i in range(ROWS)]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    tls = tmp_path / "tls"
    certificate = ["--cert", str(tls / "cert.pem"), "--key", str(tls / "key.pem")]
    listener = subprocess.Popen(
        [*AQUEDUCT, "listen", "127.0.0.1:0", "-J", *certificate],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    output = Output(listener)
    try:
        address = output.wait_for("listening on ", seconds=LONG).split()[-1]
        done = publish(tmp_path, endpoint__endpoint=f"aqueduct://{address}")
        assert done.returncode == 0, done.stderr[-3000:]
        assert f"publish: {ROWS:,} rows acked" in done.stderr
    finally:
        listener.terminate()
        listener.wait(LONG)
        output.close()
    messages = [json.loads(line) for line in output.lines if '"type": "message"' in line]
    rows = [m for m in messages if (m["name"] or "").startswith("shelf-")]
    got = {(m["name"], m["value"]) for m in rows}
    assert len(rows) == ROWS
    assert got == {
        (f"shelf-{i % 3}", json.dumps({"id": str(i), "name": f"name {i}"}, separators=(",", ":")))
        for i in range(ROWS)
    }


@pytest.mark.long
def test_an_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n1,one\n")
    subprocess.run([*AQUEDUCT, "cert", str(tmp_path / "tls")], check=True, capture_output=True)
    refused = publish(tmp_path, endpoint__endpoint=f"aqueduct://127.0.0.1:{free_port()}")
    assert refused.returncode == 1
    last = refused.stderr.strip().splitlines()[-1]
    assert last.startswith("publish: [AQUEDUCT_CONNECT.REFUSED]")
