"""``aqueduct spool settings``: shown and forgotten."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.core.cli.running import plain, seen
from tests.core.cli.spool.stored import Stored, rows, run


def test_settings_are_shown_and_forgotten(
    live: Stored, ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "listen=127.0.0.1:0" in run(capsys, "settings", live.directory)
    (told,) = rows(capsys, "settings", "-J", ended)
    assert told["settings"] == {"listen": "127.0.0.1:0"}
    assert "forgotten" in run(capsys, "settings", ended, "--forget")
    assert "none were kept" in run(capsys, "settings", ended, "--forget")
    assert "none are kept" in run(capsys, "settings", ended)
    (told,) = rows(capsys, "settings", "-J", ended)
    assert told["settings"] is None


def test_settings_on_a_terminal(ended: Path) -> None:
    code, shown = seen("spool", "settings", ended, TERM="xterm", NO_COLOR="1")
    assert code == 0
    shown = plain(shown)
    assert re.search(r"setting +value", shown)
    assert re.search(r"listen +127\.0\.0\.1:0", shown)
