"""Directories that are for their owner alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.primitives.private_files import make_directories


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_that_is_missing_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    make_directories(tmp_path / "a/b/c")
    assert [mode(tmp_path / made) for made in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o755)
    make_directories(tmp_path / "a/b")
    make_directories(tmp_path / "a/b")
    make_directories(tmp_path / "a")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a/b")) == (0o755, 0o700)


def test_one_that_another_process_makes_meanwhile_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda self: False)
    make_directories(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o700
