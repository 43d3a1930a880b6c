"""The log of our processes: to standard error, where a reader that does not read stops nobody."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Literal, TypeAlias

from aqueduct_core.logs.fault_limit import FaultLimit
from aqueduct_core.logs.json_lines import JsonFormatter
from aqueduct_core.logs.lines import LineFormatter
from aqueduct_core.logs.rotation import is_log_at, rotate
from aqueduct_core.logs.writer import BackgroundWriter

LogFormat: TypeAlias = Literal["text", "json"]

QUEUE_BYTES = 1 << 20
"""Bytes of lines that wait for a slow reader or disk; what is beyond them is left out."""

FLUSH_SECONDS = 1.0
"""Longest wait at the end of a process for lines that are not written."""

STANDARD_ERROR = 2


class LogHandler(logging.Handler):
    """Writes each record as `LineFormatter` has it, in a thread beside the caller.

    Lines that find `QUEUE_BYTES` waiting are left out, and the next line says how many; so it is
    told, without a number, where a disk was full. Tracebacks have a bound of their own, that of
    `FaultLimit`.
    ``descriptor`` appends to a file, or is a pipe or terminal.
    """

    def __init__(self, descriptor: int = STANDARD_ERROR) -> None:
        super().__init__()
        self.form = LineFormatter()
        self._descriptor = descriptor
        self._writer = BackgroundWriter(before=self._rotate, recovers=True)
        self._left_out = 0
        self._faults = FaultLimit()
        self._path: Path | None = None
        self._limit = 0

    def rotates(self, path: Path, limit: int) -> None:
        """Rotate the log by size, from now on, where it is the file at ``path``, or was when it
        was opened."""
        if is_log_at(path, self._descriptor):
            self._limit = limit
            self._path = path
            self._rotate()

    @property
    def form(self) -> LineFormatter:
        """How lines are written; it may be changed at any time."""
        return self._form

    @form.setter
    def form(self, form: LineFormatter) -> None:
        self._form = form
        self.setFormatter(form)

    def emit(self, record: logging.LogRecord) -> None:
        if not self._faults.admits(record):
            return
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        if self._writer.queued > QUEUE_BYTES:
            self._left_out += 1
            return
        failure = self._writer.failure
        if failure is not None:
            line = f"{self.form.note(f'lines are missing here: {failure.strerror}')}\n{line}"
        if self._left_out:
            count = f"{self._left_out} lines are left out here: nobody took them"
            line = f"{self.form.note(count)}\n{line}"
            self._left_out = 0
        self._writer.write(self._descriptor, f"{line}\n".encode(errors="backslashreplace"))

    def flush(self) -> None:
        """Wait for what is logged, `FLUSH_SECONDS` at most."""
        self.acquire()  # an emit may be under way in another thread
        try:
            untold = self._faults.rest()
        finally:
            self.release()
        for line in untold:
            self._writer.write(self._descriptor, f"{self.form.note(line)}\n".encode())
        self._writer.flush(FLUSH_SECONDS)

    def _rotate(self) -> None:
        path = self._path
        if path is not None:
            with contextlib.suppress(OSError):
                rotate(path, self._descriptor, self._limit)


def log_to_standard_error(level: int, form: LogFormat = "text") -> None:
    """Have records of ``level`` or above written there, in our form, if nothing is set up yet."""
    logging.basicConfig(handlers=[LogHandler()], level=level)
    use_format(form)


def use_format(form: LogFormat) -> None:
    """Lines are written so from now on, by all handlers of ours."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogHandler):
            handler.form = JsonFormatter() if form == "json" else LineFormatter()
