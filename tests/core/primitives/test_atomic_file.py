"""Files that are there whole or not at all, and directories for their owner alone."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.primitives import atomic_file

OLD, NEW = b"old", b"new content"


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to the disk, in order."""
    done: list[str] = []

    def noted(call: Callable[..., Any], text: Callable[..., str]) -> Callable[..., Any]:
        def step(*given: Any) -> Any:
            done.append(text(*given))
            return call(*given)

        return step

    def synced(descriptor: int) -> str:
        found = os.fstat(descriptor)
        return "sync" if stat.S_ISDIR(found.st_mode) else f"sync {found.st_size} bytes"

    monkeypatch.setattr(os, "fsync", noted(os.fsync, synced))
    for call in ("replace", "link"):
        monkeypatch.setattr(os, call, noted(getattr(os, call), lambda _, to: f"name {to.name}"))
    return done


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "full")


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_replaced_content_is_there_alone(tmp_path: Path) -> None:
    path = tmp_path / "a"
    for content in (OLD, NEW):
        atomic_file.replace(path, content)
        assert contents(tmp_path) == {"a": content}


def test_of_many_that_create_the_first_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert atomic_file.create(path, OLD) is True
    assert atomic_file.create(path, NEW) is False
    assert contents(tmp_path) == {"a": OLD}


@pytest.mark.parametrize("write", [atomic_file.replace, atomic_file.create])
def test_files_are_for_their_owner_alone_unless_it_is_said(
    tmp_path: Path, write: Callable[..., object]
) -> None:
    write(tmp_path / "a", NEW)
    write(tmp_path / "b", NEW, 0o644)
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in "ab"]
    assert modes == [0o600, 0o644]


@pytest.mark.parametrize("write", [atomic_file.replace, atomic_file.create])
def test_content_is_durable_before_its_name_and_the_name_before_the_return(
    tmp_path: Path, steps: list[str], write: Callable[..., object]
) -> None:
    write(tmp_path / "a", NEW)
    assert steps == [f"sync {len(NEW)} bytes", "name a", "sync"]


def test_what_need_not_be_durable_does_not_wait_for_the_disk(
    tmp_path: Path, steps: list[str]
) -> None:
    atomic_file.replace(tmp_path / "a", NEW, durable=False)
    assert steps == ["name a"]
    assert contents(tmp_path) == {"a": NEW}


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_replacement_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    atomic_file.replace(tmp_path / "a", OLD)
    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="full"):
        atomic_file.replace(tmp_path / "a", NEW)
    assert contents(tmp_path) == {"a": OLD}


@pytest.mark.parametrize("failing", ["fsync", "link"])
def test_a_creation_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    monkeypatch.setattr(os, failing, full)
    with pytest.raises(OSError, match="full"):
        atomic_file.create(tmp_path / "a", NEW)
    assert contents(tmp_path) == {}


@pytest.mark.parametrize("write", [atomic_file.replace, atomic_file.create])
def test_nothing_is_written_through_a_link_that_somebody_put_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[..., object]
) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0" * 2 * count)
    (tmp_path / "other").write_bytes(OLD)
    write(tmp_path / "a", OLD)
    drafts: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda _: drafts.extend(tmp_path.glob(".a.*")))
    atomic_file.replace(tmp_path / "a", OLD)
    drafts[0].symlink_to(tmp_path / "other")
    with pytest.raises(FileExistsError):
        write(tmp_path / "a", NEW)
    assert (tmp_path / "other").read_bytes() == OLD


@pytest.mark.parametrize("write", [atomic_file.replace, atomic_file.create])
def test_no_file_stays_open(tmp_path: Path, write: Callable[..., object]) -> None:
    before = os.listdir("/proc/self/fd")
    write(tmp_path / "a", NEW)
    write(tmp_path / "a", NEW)
    assert os.listdir("/proc/self/fd") == before


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_all_that_is_missing_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    atomic_file.make_directories(tmp_path / "a/b/c")
    assert [mode(tmp_path / made) for made in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(0o755)
    atomic_file.make_directories(tmp_path / "a/b")
    atomic_file.make_directories(tmp_path / "a/b")
    atomic_file.make_directories(tmp_path / "a")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a/b")) == (0o755, 0o700)


def test_one_that_another_process_makes_meanwhile_is_as_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda self: False)
    atomic_file.make_directories(tmp_path / "a")
    assert mode(tmp_path / "a") == 0o700
