"""An intake without Spark, as a process, and what it uses of the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.settings.intake import IntakeSettings, TlsSettings
from tests.bench.measuring import dropped
from tests.support.waiting import environment


class IntakeProcess(NamedTuple):
    """``spool``: the directory that it stores in."""

    endpoint: str
    pid: int
    spool: Path

    @property
    def drops(self) -> int:
        """Datagrams that the kernel dropped at its socket so far."""
        return dropped(int(self.endpoint.rpartition(":")[2]))


@contextmanager
def intake_process(
    folder: Path,
    intake: type[IntakeSettings] = AqueductIntake,
    program: Sequence[str] = ("-m", "aqueduct_core.intake"),
    **more: Any,
) -> Iterator[IntakeProcess]:
    """Ends it in good order; raises nothing when it has ended before. ``intake``: the settings of
    a protocol, and ``more`` of them; ``program``: what Python is to run."""
    spool = folder / "intake"
    given: dict[str, Any] = {
        "spool": str(spool),
        "credentials": Credentials.for_spool(folder),
        "listen": "127.0.0.1:0",
        "tls": TlsSettings(self_signed=("127.0.0.1",)),
    }
    settings = intake(**{**given, **more})
    process = subprocess.Popen(
        [sys.executable, *program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(settings.to_json().encode() + b"\n")
        process.stdin.close()
        scheme = settings.scheme or settings.protocol
        endpoint = f"{scheme}://{json.loads(process.stdout.readline())['listen']}"
        yield IntakeProcess(endpoint, process.pid, spool)
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@contextmanager
def intake(folder: Path) -> Iterator[tuple[str, int]]:
    """Its endpoint and process."""
    with intake_process(folder) as running:
        yield running.endpoint, running.pid
