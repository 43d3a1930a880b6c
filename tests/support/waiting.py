"""Bounded waiting for other processes: for a file, a line of output, an end. Never a bare sleep."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tests.support.repository import ROOT

T = TypeVar("T")

LONG = 180.0
"""Seconds to wait at most for what is bound to happen, on a machine however busy. A test that hangs
takes so long; no test that passes does, so there is no reason for a shorter wait."""

SOON = 60.0
"""Seconds that are few for what has a bound of its own: they tell it from what never ends, on a
machine however busy. How quick it is on a quiet one, ``make bench`` and ``make soak`` measure."""


def wait_until(probe: Callable[[], T | None], seconds: float, what: str) -> T:
    """Poll ``probe`` until it gives something true; AssertionError after ``seconds``."""
    limit = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < limit, f"{what} did not happen within {seconds} s"
        threading.Event().wait(0.05)


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def send_signal(pid: int, number: int) -> None:
    """Send it to a process that may have ended, or ends just now."""
    if alive(pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def ancestors(pid: int) -> list[int]:
    """The parents of a process up to, but without, the first process of the machine."""
    found: list[int] = []
    while True:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        if pid <= 1:
            return found
        found.append(pid)


def ended(pid: int, seconds: float) -> None:
    wait_until(lambda: not alive(pid), seconds, f"the end of process {pid}")


def running_intake(spool: Path, index: int) -> dict[str, Any] | None:
    """The status of an intake that is ready and whose process runs."""
    try:
        status: dict[str, Any] = json.loads((spool / f"intake-{index}" / "status.json").read_text())
    except (FileNotFoundError, ValueError):
        return None
    return status if status["state"] == "ready" and alive(status["pid"]) else None


def intake_status(spool: Path, index: int, seconds: float) -> dict[str, Any]:
    """The same, once there is one."""
    found = partial(running_intake, spool, index)
    return wait_until(found, seconds, f"intake {index} of {spool}")


class Output:
    """Collects what a process prints; ``wait_for`` gives the first line that holds a text."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self.lines: list[str] = []
        self._pipe = process.stdout
        self._more = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._pipe:
            with self._more:
                self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
                self._more.notify_all()

    def wait_for(self, text: str, seconds: float) -> str:
        def first() -> str | None:
            return next((line for line in self.lines if text in line), None)

        with self._more:
            self._more.wait_for(lambda: first() is not None, seconds)
            found = first()
        tail = "\n".join(self.lines[-30:])
        assert found is not None, f"no line with {text!r} within {seconds} s; the last:\n{tail}"
        return found

    def close(self) -> None:
        self._thread.join(LONG)
        self._pipe.close()


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that is to find this checkout."""
    root = str(ROOT)
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}
