"""The fixtures, in a project that names them, and in one that does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.waiting import environment

TESTS = """
import asyncio
from aqueduct import connect
from aqueduct.testing import run_virtually

def test_all(aqueduct_network, aqueduct_server, aqueduct_spool):
    async def run():
        async with aqueduct_network.serve() as server:
            async with aqueduct_network.connect(server.url):
                assert await server.accept()
    run_virtually(run())
    assert (aqueduct_spool([b"a"]) / "intake-0").is_dir()
    assert aqueduct_server.received == []
"""


def outcome(folder: Path) -> tuple[int, str]:
    (folder / "test_mine.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-p", "no:cacheprovider", "-q", "."],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_they_are_there_for_who_names_them(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["aqueduct.testing.fixtures"]\n')
    code, shown = outcome(tmp_path)
    assert code == 0, shown


def test_and_for_nobody_else(tmp_path: Path) -> None:
    code, shown = outcome(tmp_path)
    assert code == 1
    assert "fixture 'aqueduct_network' not found" in shown
