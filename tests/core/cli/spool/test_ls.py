"""``aqueduct spool ls`` beside a running intake, and after it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.core.cli.running import plain, seen
from tests.core.cli.spool.stored import FIXTURES, ROWS, Stored, rows, run
from tests.core.spool.rows import segments


def test_ls_of_a_running_intake(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    (told,) = rows(capsys, "ls", "-J", live.directory)
    status = live.running.status()
    assert (told["id"], told["epoch"], told["owner"]) == (status.id, status.epoch, live.running.pid)
    assert [log["kind"] for log in told["logs"]] == ["messages", "messages", "events"]
    assert [log["end"] for log in told["logs"][:2]] == list(status.ends)
    assert sum(status.ends) == ROWS
    (segment,) = told["segments"]
    assert segment["closed"] is None
    assert segment["bytes"] == told["bytes"] > 0
    text = run(capsys, "ls", live.directory)
    assert f"owned by process {live.running.pid}" in text
    assert "in use" in text


def test_ls_of_the_spool_of_a_query(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = (
        re.sub(r"\d+\.\d (s|messages/s)\b", "…", run(capsys, "ls", directory))
        for directory in (live.directory.parent, live.directory)
    )
    assert one == other


def test_ls_of_what_nobody_owns(ended: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "ls", ended)
    assert "owned by nobody" in text
    assert re.search(r"segment-0+1\.arrows +\d+\.\d KiB +closed \d+ \w+ ago", text)


def test_ls_tells_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = shutil.copytree(FIXTURES / "format_1", tmp_path / "spool")
    segments(directory)[1].unlink()
    (told,) = rows(capsys, "ls", "-J", directory)
    assert told["missing"] == [[0, 18, 27], [1, 12, 18]]
    assert "missing: partition 0, offsets 18 to 27" in run(capsys, "ls", directory)


def test_ls_on_a_terminal(live: Stored, tmp_path: Path) -> None:
    code, shown = seen("spool", "ls", live.directory, TERM="xterm", NO_COLOR="1")
    assert code == 0
    shown = plain(shown)
    assert f"owned by process {live.running.pid}" in shown
    assert re.search(r"partition +kind +from +to +rows", shown)
    assert re.search(r"^ *2 +events +0 +\d+ +\d+ *$", shown, re.MULTILINE)
    assert re.search(r"segment-0+1\.arrows +\d+\.\d KiB +in use +\d: 0–", shown)
    directory = shutil.copytree(FIXTURES / "format_1", tmp_path / "spool")
    segments(directory)[1].unlink()
    _, shown = seen("spool", "ls", directory, TERM="xterm")
    assert "\x1b[31mmissing: partition 0, offsets 18 to 27\x1b[0m" in shown


def test_ls_says_what_a_running_intake_does(
    live: Stored, capsys: pytest.CaptureFixture[str]
) -> None:
    with live.running.client() as client:
        client.hold("audit", "me")
    text = run(capsys, "ls", live.directory)
    assert f"listens on {live.running.listen}: 0 connections, 0 channels" in text
    assert re.search(rf"cursor audit: {ROWS} messages behind, about \d+\.\d KiB, oldest", text)
    (told,) = rows(capsys, "ls", "-J", live.directory)
    [lag] = [each for each in told["now"]["cursors"] if each["cursor"] == "audit"]
    assert (lag["records"], lag["held"]) == (ROWS, True)


def test_ls_of_what_nobody_owns_says_nothing_of_now(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (told,) = rows(capsys, "ls", "-J", ended)
    assert told["now"] is None
