"""The spool of a running intake, and the verbs of ``aqueduct spool`` in this process."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.cli.main import main
from aqueduct_core.spool import InlineSync, Spool, SpoolReader
from aqueduct_core.spool.format.record import Record
from aqueduct_core.spool.format.scan import scan
from tests.core.cli.running import aqueduct
from tests.core.spool.rows import segments
from tests.support.intake_process import IntakeProcess, Site
from tests.support.repository import ROOT

FIXTURES = ROOT / "tests" / "core" / "spool" / "fixtures"
LINES = [f"line {number}" for number in range(40)]


ROWS = 41
"""The lines, and the message of the entrypoint that their channel is attached to."""


class Stored:
    """The spool of an intake that runs."""

    def __init__(self, site: Site, running: IntakeProcess) -> None:
        self.directory = site.spool
        self.running = running

    def send(self, site: Site, tmp_path: Path) -> None:
        ca = tmp_path / "ca.pem"
        ca.write_bytes(site.client_tls.ca_pem or b"")
        done = aqueduct(
            "send",
            self.running.url,
            "--ca",
            ca,
            "--channel",
            "lines",
            "-H",
            "colour=blue",
            stdin="\n".join(LINES).encode(),
        )
        assert done.returncode == 0, done.stderr


def run(capsys: pytest.CaptureFixture[str], *given: str | Path) -> str:
    assert main(["spool", *map(str, given)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def rows(capsys: pytest.CaptureFixture[str], *given: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(capsys, *given).splitlines()]


def error(capsys: pytest.CaptureFixture[str], name: str, *given: str | Path) -> str:
    assert main(["spool", *map(str, given)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"[{name}] ")
    return line


def damage(directory: Path) -> Record:
    """Flip a bit in the newest record of messages."""
    (path,) = segments(directory)
    # the end is known to be durable: else the record would look like a torn tail
    with SpoolReader(directory) as reader:
        schema, partitions = reader.schema, reader.partitions
    Spool.open(directory, schema=schema, partitions=partitions, sync=InlineSync).close()
    victim = [record for record in scan(path, 1).rows if record.partition < partitions - 1][-1]
    with path.open("r+b") as file:
        file.seek((victim.at + victim.end) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 4]))
    return victim
