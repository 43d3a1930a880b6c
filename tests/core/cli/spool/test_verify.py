"""``aqueduct spool verify`` on what is good, and on what is damaged."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.core.cli.running import aqueduct, one_error, plain, seen
from tests.core.cli.spool.stored import FIXTURES, Stored, damage, error, rows, run
from tests.core.spool.rows import segments


def test_verify_finds_all_good(live: Stored, capsys: pytest.CaptureFixture[str]) -> None:
    text = run(capsys, "verify", live.directory)
    assert re.search(r": 1 segments, \d+ records, \d+ rows, \d+\.\d KiB: good", text)
    (told,) = rows(capsys, "verify", "-J", live.directory)
    assert (told["damage"], told["lost"], told["catalog"]) == ([], [], "good")
    assert told["rows"] >= 44


def test_verify_names_the_damaged_offsets(ended: Path) -> None:
    victim = damage(ended)
    done = aqueduct("spool", "verify", ended)
    line = one_error(done, "AQUEDUCT_SPOOL.CORRUPT")
    offsets = f"offsets {victim.first} to {victim.stop} (exclusive) are lost"
    assert f"partition {victim.partition}, {offsets}" in line
    out = done.stdout.decode()
    assert "DAMAGED" in out
    assert re.search(r"segment-0+1\.arrows: bytes \d+ to \d+ are damaged", out)


def test_verify_of_a_damaged_head_and_a_lost_catalog(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = shutil.copytree(FIXTURES / "format_1", tmp_path / "spool")
    (directory / "catalog.sqlite").write_bytes(b"nothing " * 100)
    assert "the next owner builds it anew" in run(capsys, "verify", directory)
    path = segments(directory)[2]
    with path.open("r+b") as file:
        file.seek(3)
        file.write(b"?")
    line = error(capsys, "AQUEDUCT_SPOOL.CORRUPT", "verify", directory)
    assert re.search(rf"{path.name}, bytes 0 to \d+", line)


def test_verify_on_a_terminal(live: Stored, ended: Path) -> None:
    code, shown = seen("spool", "verify", live.directory, TERM="xterm")
    assert code == 0
    assert "intake-0 " in shown
    assert re.search(r" \d+\.\d/\d+\.\d kB ", plain(shown))
    assert "rows, " in shown
    assert "\x1b[32mgood\x1b[0m" in shown
    damage(ended)
    code, shown = seen("spool", "verify", ended, TERM="xterm")
    assert code == 1
    assert "\x1b[1;31mDAMAGED\x1b[0m" in shown
