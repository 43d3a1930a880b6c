"""FAULTS 17: a sync fails. Nothing that was not reported by then is ever reported."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import SyncerProcess
from tests.core.spool.rows import append, batch, check_all, check_marks, open_spool, store
from tests.faults.spool_disks import failing, may_mount, shim


class Faulty:
    """Where a spool is to be, and how its syncs begin to fail and to work again."""

    def __init__(
        self,
        directory: Path,
        begin: Callable[[], None],
        end: Callable[[], None],
        sync: Callable[[], SyncerProcess] = SyncerProcess,
    ) -> None:
        self.directory = directory
        self.begin = begin
        self.end = end
        self.sync = sync


@contextmanager
def lost_store(tmp_path: Path) -> Iterator[Faulty]:
    """The store under the disk has no space: the kernel finds out when it writes back."""
    with failing(tmp_path) as disk:
        yield Faulty(disk.directory, lambda: disk.fill(0), disk.free)


@contextmanager
def shimmed(tmp_path: Path) -> Iterator[Faulty]:
    """``fdatasync`` itself answers with EIO, in the process of the syncer."""
    library, flag = shim(tmp_path), tmp_path / "fails"

    def started() -> SyncerProcess:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(library))
            patch.setenv("SYNC_FAILS", str(flag))
            return SyncerProcess()

    yield Faulty(tmp_path / "spool", flag.touch, flag.unlink, started)


@contextmanager
def unplugged(tmp_path: Path) -> Iterator[Faulty]:
    """The syncer gets a descriptor that the kernel refuses to sync."""
    read, write = os.pipe()
    broken: list[bool] = []

    class Unplugged(SyncerProcess):
        def start(self, file: int, directory: int) -> None:
            super().start(write if broken else file, directory)

    try:
        yield Faulty(tmp_path / "spool", lambda: broken.append(True), broken.clear, Unplugged)
    finally:
        os.close(read)
        os.close(write)


KINDS = {"unplugged": unplugged}
if shutil.which("cc"):
    KINDS["shimmed"] = shimmed
if may_mount():
    KINDS["lost store"] = lost_store


@pytest.mark.parametrize("kind", list(KINDS))
def test_fault_17_nothing_is_reported_after_a_failed_sync(tmp_path: Path, kind: str) -> None:
    with KINDS[kind](tmp_path) as faulty:
        told: list[int] = []
        # a segment a group, so that each sync is that of a new file
        spool = open_spool(faulty.directory, sync=faulty.sync, segment_bytes=1)
        spool.on_durable = told.append
        store(spool, [300, 200], groups=2)
        reported = spool.ends()
        faulty.begin()
        ends = list(reported)
        # more than the page cache of a failing disk can hide
        for _ in range(3):
            append(spool, ends, [30_000, 20_000])
            spool.flush()
        with pytest.raises(SpoolFailed, match=r"\[AQUEDUCT_SPOOL\.IO\]"):
            spool.settle(30)
        # the disk seems well again: too late for this owner
        faulty.end()
        for _ in range(3):
            for call in (
                lambda: spool.append(0, batch(0, ends[0], ends[0] + 1)),
                spool.flush,
                spool.pump,
                lambda: spool.settle(1),
                lambda: spool.commit("q", [1, 1]),
                lambda: spool.enter_cursor("q", [True, True]),
                lambda: spool.drop("q"),
                spool.trim,
            ):
                with pytest.raises(SpoolFailed, match="IO"):
                    call()
        assert spool.failed
        assert told == [1, 2]
        assert spool.ends() == reported
        check_all(spool)
        spool.close()
        # the next owner finds all that was reported, and goes on
        with open_spool(faulty.directory, segment_bytes=1) as spool:
            assert all(a >= b for a, b in zip(spool.ends(), reported, strict=True))
            check_all(spool)
            check_marks(spool)
            store(spool, [2, 1])
            check_all(spool)
