"""A terminal does not obey a peer, and a reader that does not read stops nobody but itself."""

from __future__ import annotations

import os
import re
import sys
import threading
from pathlib import Path

import pytest

from aqueduct_core.cli.console import terminal
from tests.core.cli.running import aqueduct, plain, read_all, seen
from tests.support.waiting import LONG


def test_a_bar_of_progress_waits_for_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reads, writes = os.pipe()
    got: list[bytes] = []
    reading = threading.Thread(target=lambda: got.append(read_all(reads)))
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    monkeypatch.setattr(terminal, "PROGRESS_SECONDS", 0.0)
    with open(writes, "w", encoding="utf-8") as errors:
        monkeypatch.setattr("sys.stderr", errors)
        with terminal.ProgressBar("acked", "messages", 10_000) as bar:
            for done in range(10_000):  # many times what a pipe holds
                bar.update(done)
            reading.start()
    reading.join(LONG)
    assert 1 << 12 < len(got[0]) < 1 << 18
    assert got[0].endswith(terminal.SHOW_CURSOR.encode())
    os.close(reads)


def test_nothing_of_a_peer_is_markup(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "is_terminal", lambda stream: True)
    rows = [("[red]name[/red]", ":smile: [/] \\[x] 12 'a'")]
    terminal.console(sys.stdout).print(terminal.table("a", "b", rows=rows))
    terminal.print_title("[bold]x[/bold]")
    terminal.print_graded("[blink]y", "[good]", "ok")
    terminal.print_error("[AQUEDUCT_SPOOL.IO] [bold]z[/bold]")
    told = capsys.readouterr()
    for each in ("[red]name[/red]", *rows[0][1].split(), "[bold]x[/bold]", "[blink]y[good]"):
        assert each in told.out
    assert told.err == "[AQUEDUCT_SPOOL.IO] [bold]z[/bold]\n"


def test_an_error_is_one_line_and_coloured_only_where_that_is_wanted(tmp_path: Path) -> None:
    line = f"[AQUEDUCT_SPOOL.IO] {tmp_path / 'nowhere'} cannot be used"
    code, shown = seen("spool", "ls", tmp_path / "nowhere", TERM="xterm")
    assert code == 1
    assert shown.startswith("\x1b[1;31m[AQUEDUCT_SPOOL.IO]\x1b[0m ")
    assert shown.count("\n") == 1
    for environment in ({"TERM": "xterm", "NO_COLOR": "1"}, {"TERM": "dumb"}):
        code, shown = seen("spool", "ls", tmp_path / "nowhere", **environment)
        assert plain(shown).startswith(line)
        assert not re.search(r"\x1b\[[\d;]*3\d", shown)
    piped = aqueduct("spool", "ls", tmp_path / "nowhere").stderr.decode()
    assert piped.startswith(line)
