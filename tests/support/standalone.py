"""``aqueduct intake`` as a process, and what a query can read of it."""

from __future__ import annotations

import json
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.tickets import Ticket
from tests.support.waiting import LONG, environment, wait_until

TIMEOUT = LONG


class Running:
    """An intake process with its ready line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        readable, _, _ = select.select([process.stdout], [], [], TIMEOUT)
        self.line = process.stdout.readline().decode() if readable else ""

    @property
    def ready(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.line)
        return value

    def client(self) -> IntakeClient:
        """With nothing but what the ready line names, as a query has it."""
        ready = self.ready
        credentials = Credentials(
            Path(ready["tokenFile"]).read_text().strip(), Path(ready["caFile"]).read_bytes()
        )
        return IntakeClient(ready["flight"], credentials)

    def values(self, rows: int) -> list[bytes]:
        """Once so many rows are durable."""
        with self.client() as client:
            wait_until(lambda: client.status().ends == (rows,), TIMEOUT, "the rows")
            status = client.status()
            batches = client.read(Ticket(status.id, 0, 0, rows))
            return [value for batch in batches for value in batch.column("value").to_pylist()]


@contextmanager
def running(config: Path, *arguments: str) -> Iterator[Running]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "aqueduct_core.cli.main",
            "intake",
            "--config",
            str(config),
            *arguments,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    with process:
        try:
            yield Running(process)
        finally:
            process.kill()
