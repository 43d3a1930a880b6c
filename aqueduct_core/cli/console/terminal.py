"""What a person sees on a terminal, drawn by `rich`: colours, tables, bars of progress.

A verb asks `is_terminal` first and prints plain lines where nobody looks, so what scripts read does
not depend on this module. rich leaves colours out where ``NO_COLOR`` is set or ``TERM`` is
``dumb``. What a peer wrote is `escaped` before it comes here, and no text is markup. rich is
imported where it draws: a script does not wait for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, TextIO

from aqueduct_core.logs.writer import BackgroundWriter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

PROGRESS_BYTES = 4096
"""Bytes of a bar of progress that may wait."""

PROGRESS_SECONDS = 0.1
"""Between two drawings of a bar."""

FLUSH_SECONDS = 1.0
"""Longest wait for a terminal that stands still, when a bar ends."""

STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}
"""Of the grades of what is found."""

SHOW_CURSOR = "\x1b[?25h"

Unit = Literal["bytes", "rows", "messages"]


def is_terminal(stream: TextIO) -> bool:
    """Whether a person looks at it."""
    return stream.isatty()


def console(stream: TextIO) -> Console:
    """Draws on a terminal; what is printed is taken as it is."""
    from rich.console import Console

    return Console(file=stream, highlight=False, markup=False, emoji=False)


def table(*columns: str, right: Sequence[str] = (), rows: Iterable[Sequence[str]]) -> Table:
    """With headings; the columns named in ``right`` are aligned there, and none is cut off."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text(cell) for cell in row))
    return made


def print_title(text: str) -> None:
    """On a terminal: what the table below it is about."""
    from rich.text import Text

    console(sys.stdout).print(Text(text, "bold"), soft_wrap=True)


def print_graded(text: str, word: str, grade: str) -> None:
    """A line on standard output that ends with a word; on a terminal in the colour of its grade."""
    if not is_terminal(sys.stdout):
        print(text + word)
        return
    from rich.text import Text

    console(sys.stdout).print(Text.assemble(text, (word, STYLES[grade])), soft_wrap=True)


def print_error(text: str) -> None:
    """One line on standard error; on a terminal the name of the error stands out."""
    name, bracket, rest = text.partition("] ")
    if not (is_terminal(sys.stderr) and bracket and name.startswith("[")):
        print(text, file=sys.stderr)
        return
    from rich.text import Text

    shown = Text.assemble((name + "]", "bold red"), " ", rest)
    console(sys.stderr).print(shown, soft_wrap=True)


class ProgressFile:
    """Standard error for a bar of progress: what is drawn while a terminal stands still is left
    out, so that nobody waits for it."""

    def __init__(self) -> None:
        self._writer = BackgroundWriter()
        self._descriptor = sys.stderr.fileno()
        self.encoding = sys.stderr.encoding

    def write(self, text: str) -> int:
        if self._writer.queued < PROGRESS_BYTES:
            self._write(text)
        return len(text)

    def flush(self) -> None:
        """What is drawn needs no haste."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """Have it drawn before anything else is printed, if the terminal takes it; the cursor that
        a bar hides is shown in any case."""
        self._write(SHOW_CURSOR)
        self._writer.flush(FLUSH_SECONDS)

    def _write(self, text: str) -> None:
        self._writer.write(self._descriptor, text.encode(self.encoding, "backslashreplace"))


class ProgressBar:
    """How far something is, on standard error where that is a terminal; nothing elsewhere.

    With a ``total`` it also says how long the rest will take. A context manager: the bar goes at
    its end. ``update`` returns at once.
    """

    def __init__(self, description: str, unit: Unit, total: int | None = None) -> None:
        self._description = description
        self._unit = unit
        self._total = total
        self._file: ProgressFile | None = None
        self._progress: Progress | None = None
        self._drawn = 0.0

    def __enter__(self) -> Self:
        if is_terminal(sys.stderr):
            self._file = ProgressFile()
            self._progress = _progress(self._file, self._unit, estimates=self._total is not None)
            self._progress.add_task(self._description, total=self._total)
            self._progress.start()
        return self

    @property
    def shown(self) -> bool:
        """Whether anybody sees it."""
        return self._progress is not None

    def update(
        self, completed: int, total: int | None = None, *, description: str | None = None
    ) -> None:
        """So much is done, of so much by now."""
        if self._progress is None:
            return
        (task,) = self._progress.task_ids
        self._progress.update(task, completed=completed, total=total, description=description)
        if time.monotonic() - self._drawn >= PROGRESS_SECONDS:
            self._progress.refresh()
            self._drawn = time.monotonic()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None and self._file is not None:
            self._progress.stop()
            self._file.close()


def _progress(file: ProgressFile, unit: Unit, *, estimates: bool) -> Progress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    amount: list[ProgressColumn] = (
        [DownloadColumn(), TransferSpeedColumn()]
        if unit == "bytes"
        else [MofNCompleteColumn(), TextColumn(unit)]
    )
    times: list[ProgressColumn] = [TimeElapsedColumn()]
    if estimates:
        times += [TextColumn("eta"), TimeRemainingColumn(compact=True)]
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(None if estimates else 40),
        *amount,
        *times,
        console=console(file),  # type: ignore[arg-type]
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
