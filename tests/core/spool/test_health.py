"""FAULTS 13, 17: a disk without space, and a disk that fails."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import Disk, InlineSync
from aqueduct_core.spool.catalog import Catalog
from tests.core.spool.rows import (
    append,
    batch,
    check_all,
    check_marks,
    check_rows,
    open_spool,
    segments,
    store,
)


class SmallDisk(Disk):
    """Files may grow by ``room`` bytes in all; what does not fit is cut short, then refused."""

    def __init__(self, room: int) -> None:
        self.room = room

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        data = b"".join(pieces)
        grows = max(0, at + len(data) - os.fstat(fd).st_size)
        super().write(fd, [data[: len(data) - max(0, grows - self.room)]], at)
        if grows > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= grows
        return len(data)


@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
@pytest.mark.parametrize("left", [0, 1, 100, 700])
def test_no_space_keeps_the_group_until_there_is_some(
    tmp_path: Path, left: int, segment_bytes: int
) -> None:
    disk = SmallDisk(1 << 20)
    with open_spool(tmp_path, disk=disk, segment_bytes=segment_bytes) as spool:
        store(spool, [3, 2], groups=2)
        ends = spool.ends()
        disk.room = left
        append(spool, ends, [3, 2])
        group = spool.group
        for _ in range(3):
            assert not spool.flush()
            assert spool.full
            assert not spool.failed
            assert spool.group == group
            assert spool.ends() == [6, 4]
        check_all(spool)
        disk.room = 1 << 20
        assert spool.settle(5)
        assert not spool.full
        assert spool.ends() == ends == [9, 6]
        check_all(spool)
        store(spool, [1, 1])
    with open_spool(tmp_path) as spool:
        assert spool.ends() == [10, 7]
        check_all(spool)
        check_marks(spool)


class InPlaceTakesSpace(Disk):
    """Of a file system that writes nothing in place: also what stands in a file already may find
    no space, or fail. ``error``: with what, from now on; ``torn`` bytes are written before."""

    error = 0
    torn = 0

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        if self.error and os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2].startswith("owner"):
            super().write(fd, [b"".join(pieces)[: self.torn]], at)
            raise OSError(self.error, os.strerror(self.error))
        return super().write(fd, pieces, at)


@pytest.mark.parametrize("torn", [0, 60])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_fault_13_a_group_that_cannot_be_marked_waits_to_be_reported(
    tmp_path: Path, code: int, torn: int
) -> None:
    disk = InPlaceTakesSpace()
    reports: list[int] = []
    with open_spool(tmp_path / "spool", disk=disk) as spool:
        spool.on_durable = reports.append
        store(spool, [3, 2], groups=2)
        disk.error, disk.torn = code, torn
        append(spool, spool.ends(), [3, 2])
        for _ in range(3):
            assert not spool.settle(5)
            assert (spool.full, spool.unreported, spool.failed) == (True, True, False)
            assert (reports, spool.ends()) == ([1, 2], [6, 4])
        # as a kill leaves it: the next owner misses nothing that was reported
        killed = shutil.copytree(tmp_path / "spool", tmp_path / "killed")
        disk.error = 0
        spool.pump()
        assert (reports, spool.ends()) == ([1, 2, 3], [9, 6])
        assert (spool.full, spool.unreported) == (False, False)
        store(spool, [1, 1])
        check_all(spool)
        check_marks(spool)
    (path,) = segments(killed)
    path.write_bytes(path.read_bytes()[:-8])
    with open_spool(killed) as spool:
        assert spool.ends() == [6, 4]
        check_all(spool)
        check_marks(spool)


def test_a_new_cursor_that_is_only_in_the_catalog_is_none(tmp_path: Path) -> None:
    """Its reader is told: with the catalog the cursor could be lost, and rows that it needs."""
    disk = InPlaceTakesSpace()
    with open_spool(tmp_path, disk=disk, segment_bytes=1) as spool:
        store(spool, [3, 2], groups=3)
        spool.enter_cursor("fast", [True, True])
        disk.error = errno.ENOSPC
        for _ in range(2):
            with pytest.raises(SpoolFailed, match="FULL"):
                spool.enter_cursor("slow", [True, True])
        disk.error = 0
        spool.enter_cursor("slow", [True, True])
        killed = shutil.copytree(tmp_path, tmp_path / "killed")
    (killed / "catalog.sqlite").unlink()
    with open_spool(killed) as spool:
        assert set(spool.cursors()) == {"fast", "slow"}


def test_a_close_without_a_mark_says_that_rows_were_not_reported(tmp_path: Path) -> None:
    disk = InPlaceTakesSpace()
    spool = open_spool(tmp_path, disk=disk)
    store(spool, [3, 2])
    disk.error = errno.ENOSPC
    append(spool, spool.ends(), [3, 2])
    with pytest.raises(SpoolFailed, match=r"FULL.*groups that were not reported"):
        spool.close()
    # they may be there: their producers, which had no ack, send them again under their numbers
    with open_spool(tmp_path) as spool:
        assert spool.ends() == [6, 4]
        check_all(spool)
        check_marks(spool)


def test_a_mark_that_fails_otherwise_is_final(tmp_path: Path) -> None:
    disk = InPlaceTakesSpace()
    reports: list[int] = []
    spool = open_spool(tmp_path, disk=disk)
    spool.on_durable = reports.append
    store(spool, [3, 2])
    disk.error = errno.EIO
    append(spool, spool.ends(), [3, 2])
    for _ in range(2):
        with pytest.raises(SpoolFailed, match=r"IO.*Input/output error"):
            spool.settle(5)
    disk.error = 0
    with pytest.raises(SpoolFailed, match="IO"):
        spool.pump()
    assert (reports, spool.ends(), spool.failed) == ([1], [3, 2], True)
    spool.close()


def test_trimming_makes_space(tmp_path: Path) -> None:
    disk = SmallDisk(1 << 20)
    with open_spool(tmp_path, disk=disk, segment_bytes=1) as spool:
        store(spool, [3, 2], groups=3)
        disk.room = 100
        append(spool, spool.ends(), [3, 2])
        assert not spool.flush()
        with pytest.raises(SpoolFailed, match="FULL"):
            spool.commit("q", [6, 4])
        before = spool.bytes
        while spool.trim():
            pass
        disk.room += before - spool.bytes
        assert spool.settle(5)
        assert spool.ends() == [12, 8]
        check_all(spool)


def test_a_close_without_space_says_that_rows_are_not_stored(tmp_path: Path) -> None:
    disk = SmallDisk(1 << 20)
    spool = open_spool(tmp_path, disk=disk)
    store(spool, [3, 2])
    disk.room = 10
    append(spool, spool.ends(), [3, 2])
    with pytest.raises(SpoolFailed, match="FULL"):
        spool.close()
    with open_spool(tmp_path) as spool:
        assert spool.ends() == [3, 2]
        check_all(spool)
        check_marks(spool)


class FailingSync(InlineSync):
    """A disk whose sync fails from the given time on: ``FailingSync.after`` syncs are good."""

    after = 0

    def sync(self, fd: int) -> None:
        if FailingSync.after <= 0:
            raise OSError(errno.EIO, "Input/output error")
        FailingSync.after -= 1
        super().sync(fd)


def test_after_a_failed_sync_nothing_becomes_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(FailingSync, "after", 3)
    told: list[int] = []
    spool = open_spool(tmp_path, sync=FailingSync)
    spool.on_durable = told.append
    store(spool, [3, 2], groups=2)
    append(spool, spool.ends(), [3, 2])
    assert spool.flush()
    with pytest.raises(SpoolFailed, match=r"IO.*Input/output error"):
        spool.pump()
    # the disk seems well again: too late for this file
    monkeypatch.setattr(FailingSync, "after", 1000)
    for call in (
        spool.flush,
        spool.pump,
        lambda: spool.append(0, batch(0, 6, 7)),
        lambda: spool.commit("q", [1, 1]),
        spool.trim,
        lambda: spool.drop("q"),
        lambda: spool.settle(1),
    ):
        with pytest.raises(SpoolFailed, match=r"IO.*Input/output error"):
            call()
    assert spool.failed
    assert told == [1, 2]
    assert spool.ends() == [6, 4]
    check_all(spool)
    spool.close()
    assert "stores nothing any more" in caplog.text
    with open_spool(tmp_path) as spool:
        # what is found on the disk may be more than was reported, never less
        assert all(a >= b for a, b in zip(spool.ends(), [6, 4], strict=True))
        check_all(spool)
        check_marks(spool)


class BrokenDisk(Disk):
    broken = False

    def write(self, fd: int, pieces: Sequence[bytes | memoryview], at: int) -> int:
        if self.broken:
            super().write(fd, [b"".join(pieces)[:77]], at)
            raise OSError(errno.EIO, "Input/output error")
        return super().write(fd, pieces, at)

    def unlink(self, path: Path) -> None:
        if self.broken:
            raise OSError(errno.EIO, "Input/output error")
        super().unlink(path)


def test_a_failed_write_is_final(tmp_path: Path) -> None:
    disk = BrokenDisk()
    spool = open_spool(tmp_path, disk=disk)
    store(spool, [3, 2])
    disk.broken = True
    append(spool, spool.ends(), [3, 2])
    with pytest.raises(SpoolFailed, match="IO"):
        spool.flush()
    disk.broken = False
    with pytest.raises(SpoolFailed, match="IO"):
        spool.flush()
    spool.close()
    with open_spool(tmp_path) as spool:
        assert spool.ends() == [3, 2]
        check_all(spool)
        check_marks(spool)


def test_a_failed_unlink_is_final(tmp_path: Path) -> None:
    disk = BrokenDisk()
    spool = open_spool(tmp_path, disk=disk, segment_bytes=1)
    store(spool, [1, 1], groups=2)
    spool.commit("q", [1, 1])
    disk.broken = True
    with pytest.raises(SpoolFailed, match="IO"):
        spool.trim()
    spool.close()


class CrowdedCatalog:
    """Makes every change of the catalog find no space while ``full``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        monkeypatch.setattr(Catalog, "_change", self.guarded(Catalog._change))

    def guarded(self, method: object) -> object:
        def call(*args: object, **given: object) -> object:
            if self.full:
                error = sqlite3.OperationalError("database or disk is full")
                error.sqlite_errorcode = sqlite3.SQLITE_FULL
                raise error
            return method(*args, **given)  # type: ignore[operator]

        return call


def test_a_catalog_without_space_stops_no_rows_and_no_trimming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowded = CrowdedCatalog(monkeypatch)
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [3, 2], groups=3)
        crowded.full = True
        store(spool, [3, 2], groups=3)
        with pytest.raises(SpoolFailed, match="FULL"):
            spool.commit("q", [6, 4])
        while spool.trim():
            pass
        assert spool.starts() == [6, 4]
        assert not spool.failed
        crowded.full = False
        spool.commit("q", [6, 4])
        check_all(spool)
    with open_spool(tmp_path) as spool:
        assert spool.cursors() == {"q": [6, 4]}
        assert spool.starts() == [6, 4]
        check_rows(spool, 0, 6, 18)
        check_marks(spool)
    assert len(segments(tmp_path)) == 4
