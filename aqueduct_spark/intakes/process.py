"""Starts the intake process so that it outlives the task, its worker and its executor.

The process gets a session of its own and a parent that ends at once, so it is a child of no
process of Spark. Its settings travel over standard input, because they hold secrets; the one
line that it answers on standard output says that it is ready, or why it is not.
"""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, NamedTuple

from aqueduct_core.errors import AqueductError, IntakeFailed, SpoolFailed
from aqueduct_core.flight import error_codec
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.intake.storage.layout import LOG_FILE
from aqueduct_core.primitives.atomic_file import FILE_MODE, make_directories

TAIL_BYTES = 16_384
"""What is looked at of the end of a log."""

MAX_LINE_BYTES = 1 << 20
"""Longest answer of an intake; it is a few hundred bytes with a few partitions."""

_DROPPED = (
    "PYTHON_WORKER_FACTORY_SECRET",
    "PYTHON_WORKER_FACTORY_PORT",
    "SPARK_AUTH_SOCKET_TIMEOUT",
)
"""Secrets and sockets between Spark and its Python worker: nothing that outlives the worker."""

SHOWN_LINES, SHOWN_CHARACTERS = 6, 300
"""Of the log of a process that failed: the last lines, and characters of each, in an error."""

_DETACH = """
import subprocess, sys
process = subprocess.Popen(sys.argv[1:], start_new_session=True, cwd='/')
print('{"started": %d}' % process.pid, flush=True)
process.returncode = 0
"""
"""Starts its arguments with our own standard streams in a session of their own, says their process
in a line, and ends."""

_VANISH = """
import os, shutil, subprocess, sys
process = subprocess.Popen(sys.argv[2:])
null = os.open(os.devnull, os.O_RDWR)
os.dup2(null, 0)
os.dup2(null, 1)
process.wait()
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""
"""Runs its arguments but the first, and removes that directory when they have ended."""


class Started(NamedTuple):
    """What an intake says of itself when it is ready. ``flight`` is where it serves its rows."""

    id: str
    epoch: int
    flight: str
    listen: str
    pid: int
    fingerprint: str


def start_intake(settings: IntakeSettings, timeout: float, *, vanish: bool = False) -> Started:
    """Start an intake and return when it is ready.

    Ends after ``timeout`` seconds. An intake that becomes ready later ends itself with its lease.
    ``vanish``: its spool directory is removed when it has ended, in whatever way.

    Raises:
        AqueductError: what the intake gives as the reason that it cannot run, for instance
            SpoolFailed.LOCKED, ConnectFailed.REFUSED (the port is in use), TlsFailed.EXPIRED.
        IntakeFailed: LAUNCH_TIMEOUT, or UNREACHABLE when it ended without a reason.
    """
    directory = Path(settings.spool)
    log_path = directory / LOG_FILE
    plain = [sys.executable, "-I", "-S", "-c"]
    keeper = [*plain, _VANISH, str(directory)] if vanish else []
    with _open_log(log_path) as log:
        start = _Start(settings.spool, log_path, log.seek(0, os.SEEK_END))
        process = subprocess.Popen(
            [*plain, _DETACH, *keeper, sys.executable, "-m", "aqueduct_core.intake"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            close_fds=True,
            start_new_session=True,
            cwd="/",
            env=_environment(),
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdout as answers:
            try:
                with process.stdin as stdin:
                    stdin.write(settings.to_json().encode() + b"\n")
            except BrokenPipeError:
                pass
            return start.outcome(answers, timeout)
    finally:
        process.wait()


class _Start:
    """A start of an intake: what its process says, and what is said of it where it fails.

    Args:
        log_begin: where in the log the lines of this process begin.
    """

    def __init__(self, spool: str, log_path: Path, log_begin: int) -> None:
        self._spool = spool
        self._log_path = log_path
        self._log_begin = log_begin
        self._pid: int | None = None

    def outcome(self, answers: IO[bytes], timeout: float) -> Started:
        """As `start_intake`."""
        deadline = time.monotonic() + timeout
        buffer = b""
        while True:
            line, buffer = _next_line(answers, buffer, deadline)
            if line is None:
                raise IntakeFailed(
                    "LAUNCH_TIMEOUT",
                    f"{self} was not ready after {timeout:g} s: {self._last_lines()}",
                    f"Read {self._log_path}, or raise 'launchTimeout'",
                )
            try:
                answer = json.loads(line)
                if "started" in answer:
                    self._pid = int(answer["started"])
                    continue
                if answer["ready"]:
                    return Started(**{name: answer[name] for name in Started._fields})
                reason = error_codec.from_json(answer["error"])
            except (ValueError, TypeError, KeyError):
                reason = None
            raise self._failure(reason)

    def _failure(self, reason: AqueductError | None) -> AqueductError:
        if reason is None:
            what = f"{self} ended before it was ready: {self._last_lines()}"
            return IntakeFailed("UNREACHABLE", what, f"Read {self._log_path}")
        return type(reason)(reason.subclass, f"{reason.what} ({self})", reason.remedy)

    def __str__(self) -> str:
        process = "" if self._pid is None else f", process {self._pid}"
        return f"the intake for {self._spool} on host {socket.gethostname()}{process}"

    def _last_lines(self) -> str:
        """What the process said last; a log of ours never holds a secret."""
        try:
            with self._log_path.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                begin = self._log_begin if end >= self._log_begin else 0  # it was put aside
                log.seek(max(begin, end - TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").split("\n")
        except OSError:
            lines = []
        said = [line.strip()[:SHOWN_CHARACTERS] for line in lines if line.strip()]
        return " | ".join(said[-SHOWN_LINES:]).rstrip(".") or "it said nothing"


def _next_line(stream: IO[bytes], buffer: bytes, deadline: float) -> tuple[bytes | None, bytes]:
    """The bytes up to the next line end or the end of the stream, and what was read behind them;
    None when time is up."""
    descriptor = stream.fileno()
    while b"\n" not in buffer and len(buffer) < MAX_LINE_BYTES:
        remaining = deadline - time.monotonic()
        if remaining <= 0 or not select.select([descriptor], [], [], remaining)[0]:
            return None, buffer
        chunk = os.read(descriptor, 65_536)
        if not chunk:
            break
        buffer += chunk
    line, _, rest = buffer.partition(b"\n")
    return line, rest


def _open_log(path: Path) -> IO[bytes]:
    """To append to; the intake rotates it, for it may be there long after us, or beside another."""
    try:
        make_directories(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return open(os.open(path, flags, FILE_MODE), "ab")
    except OSError as error:
        raise SpoolFailed(
            "IO",
            f"The spool directory {path.parent} cannot be used on host {socket.gethostname()}: "
            f"{error.strerror}",
            "Set 'spool' to a directory that executors can write to",
        ) from None


def _environment() -> dict[str, str]:
    environment = {k: v for k, v in os.environ.items() if k not in _DROPPED}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return environment
