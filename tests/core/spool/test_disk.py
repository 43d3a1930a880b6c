"""The file operations that durability rests on."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from aqueduct_core.spool import Disk


def test_more_buffers_than_one_call_takes_are_written(tmp_path: Path) -> None:
    buffers = [b"%d," % number for number in range(3_000)] + [b""]
    fd = Disk().create(tmp_path / "file")
    try:
        written = Disk().write(fd, buffers, 5)
    finally:
        os.close(fd)
    assert written == len(b"".join(buffers))
    assert (tmp_path / "file").read_bytes() == bytes(5) + b"".join(buffers)


def test_a_file_is_replaced_at_once_or_not_at_all(tmp_path: Path) -> None:
    class Full(Disk):
        def sync(self, fd: int) -> None:
            raise OSError("no space")

    path = tmp_path / "file"
    Disk().replace(path, b"old")
    with pytest.raises(OSError, match="no space"):
        Full().replace(path, b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("file", b"old")]
    Disk().replace(path, b"new")
    assert path.read_bytes() == b"new"


def test_each_directory_that_is_made_is_durable_in_the_one_above(tmp_path: Path) -> None:
    class Seen(Disk):
        def sync_directory(self, directory: Path) -> None:
            synced.append(directory)

    synced: list[Path] = []
    disk = Seen()
    disk.make_directories(tmp_path / "a" / "b")
    disk.make_directories(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
