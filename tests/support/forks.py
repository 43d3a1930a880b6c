"""Processes that start at once: forked from a server that has imported what they run.

A new interpreter takes 0.4 s of CPU until an intake or a command begins, and tests start hundreds
of them. That ``python -m`` and the installed command begin, too, is shown where Spark, the README
and ``tests/core/cli/test_send.py`` start them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any, cast

from tests.support.waiting import send_signal

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["aqueduct_core.cli.main", "aqueduct_core.intake.process"])


class Fork:
    """Runs ``function`` in a process of its own; the verbs are those of ``subprocess.Popen``.

    The three streams are open files of the caller, who closes them. ``function`` gives the exit
    code; it is found by its name, like the arguments' types.
    """

    def __init__(
        self,
        function: Callable[..., int | None],
        *arguments: Any,
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
        environment: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
    ) -> None:
        streams = [_Descriptor(stream.fileno()) for stream in (stdin, stdout, stderr)]
        surroundings = (dict(environment or os.environ), str(cwd or Path.cwd()))
        # One that a failed test forgets is ended with the tests.
        self._process = _FORKS.Process(
            target=_run, args=(function, arguments, streams, *surroundings), daemon=True
        )
        self._process.start()

    @property
    def pid(self) -> int:
        return cast("int", self._process.pid)

    def poll(self) -> int | None:
        """The exit code, -9 for SIGKILL; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(str(self._process.name), cast("float", timeout))
        return code

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            # It is a child of the server, which may have seen its end before it told us.
            send_signal(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Descriptor:
    """An open file that is handed to a process when it starts."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (DupFd(self.number),)


def _received(duplicate: Any) -> _Descriptor:
    return _Descriptor(duplicate.detach())


def _run(
    function: Callable[..., int | None],
    arguments: tuple[Any, ...],
    streams: list[_Descriptor],
    environment: dict[str, str],
    cwd: str,
) -> None:
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream.number, number)
        os.close(stream.number)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(n, m, closefd=False) for n, m in enumerate("rww")
    )
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.exit(function(*arguments))
