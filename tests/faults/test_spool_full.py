"""FAULTS 13: the disk of a spool is full; with space again it goes on where it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import Spool, SyncerProcess
from tests.core.spool.rows import SCHEMA, check_marks, noted, open_spool, segments, trim_all
from tests.faults.spool_disks import MOUNTS, SMALL, Small

ROW = 8 * 1024


@pytest.fixture(params=list(SMALL))
def small(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Small]:
    with SMALL[request.param](tmp_path) as disk:
        yield disk


def value(partition: int, offset: int) -> bytes:
    return b"%d/%d " % (partition, offset) * (ROW // 8)


class Ledger:
    """What was appended, what was reported, and what is found."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.appended = spool.ends()
        self.reported = spool.ends()
        spool.on_durable = self._durable

    def _durable(self, group: int) -> None:
        self.reported = self.spool.ends()

    def append(self) -> None:
        for partition in range(2):
            offset = self.appended[partition]
            rows = [pa.array([value(partition, offset)]), pa.array([offset])]
            batch = pa.record_batch(rows, schema=SCHEMA)
            marks = noted(partition, offset, offset + 1)
            assert self.spool.append(partition, batch, *marks) == (offset, offset + 1)
            self.appended[partition] += 1

    def fill(self) -> None:
        """Append until there is no space."""
        while True:
            self.append()
            if not self.spool.settle(10):
                return


def check(spool: Spool) -> None:
    for partition, (start, end) in enumerate(zip(spool.starts(), spool.ends(), strict=True)):
        at = start
        for piece in spool.read(partition, start, end):
            for found in piece.column("value").to_pylist():
                assert found == value(partition, at)
                at += 1
        assert at == end


def test_fault_13_disk_full_and_space_again(small: Small) -> None:
    with open_spool(small.directory, sync=SyncerProcess) as spool:
        ledger = Ledger(spool)
        spool.enter_cursor("query", [True, True])
        for _ in range(3):
            ledger.append()
            assert spool.settle(10)
        for turn in range(3):
            small.fill(100 * 1024)
            ledger.fill()
            assert spool.full
            assert not spool.failed
            # nothing of the open group is reported, however often it is tried
            reported = list(ledger.reported)
            for _ in range(5):
                assert not spool.settle(10)
            assert ledger.reported == spool.ends() == reported < ledger.appended
            check(spool)
            small.free()
            assert spool.settle(10)
            assert not spool.full
            assert ledger.reported == ledger.appended
            spool.commit("query", [turn + 1, turn + 1])
            check(spool)
        check_marks(spool)
    with open_spool(small.directory) as spool:
        assert spool.ends() == ledger.appended
        assert spool.cursors() == {"query": [3, 3]}
        check(spool)
        check_marks(spool)


def test_fault_13_a_kill_while_the_disk_is_full(small: Small) -> None:
    spool = open_spool(small.directory, sync=SyncerProcess)
    ledger = Ledger(spool)
    small.fill(100 * 1024)
    ledger.fill()
    reported = list(ledger.reported)
    # as a kill leaves it: what is open was never reported, and goes with the process
    with pytest.raises(SpoolFailed, match="FULL"):
        spool.close()
    small.free()
    with open_spool(small.directory) as spool:
        assert spool.ends() == reported
        check(spool)
        check_marks(spool)
        ledger = Ledger(spool)
        ledger.append()
        assert spool.settle(10)
        check(spool)


@pytest.mark.parametrize("kind", list(MOUNTS) or ["cap"])
def test_fault_13_what_was_read_gives_space(kind: str, tmp_path: Path) -> None:
    """Nobody frees the disk: trimming does. Where no disk can be had it is the cap that is full."""
    if kind == "cap":
        with open_spool(tmp_path, segment_bytes=64 * 1024, max_bytes=512 * 1024) as spool:
            goes_on_by_trimming(spool, Ledger(spool))
        return
    with (
        MOUNTS[kind](tmp_path) as small,
        open_spool(small.directory, sync=SyncerProcess, segment_bytes=64 * 1024) as spool,
    ):
        ledger = Ledger(spool)
        spool.enter_cursor("query", [True, True])
        goes_on_by_trimming(spool, ledger)


def goes_on_by_trimming(spool: Spool, ledger: Ledger) -> None:
    for _ in range(3):
        while not spool.full:
            ledger.append()
            spool.settle(10)
        check(spool)
        reported = list(ledger.reported)
        # where it cannot be noted it counts all the same
        with contextlib.suppress(SpoolFailed):
            spool.commit("query", reported)
        assert not spool.failed
        assert trim_all(spool)
        assert spool.settle(10)
        assert not spool.full
        assert ledger.reported == ledger.appended
        check(spool)
    check_marks(spool)


@pytest.mark.parametrize("kind", list(MOUNTS) or ["file limit"])
def test_fault_13_opening_on_a_full_disk(kind: str, tmp_path: Path) -> None:
    with SMALL[kind](tmp_path) as small:
        with open_spool(small.directory) as spool:
            ledger = Ledger(spool)
            ledger.append()
            assert spool.settle(10)
            epoch = spool.epoch
        before = [path.read_bytes() for path in segments(small.directory)]
        if kind in MOUNTS:
            small.fill(0)
            with pytest.raises(SpoolFailed, match=r"FULL.*cannot be opened"):
                open_spool(small.directory)
            small.free()
        assert [path.read_bytes() for path in segments(small.directory)] == before
        with open_spool(small.directory) as spool:
            assert spool.epoch > epoch
            assert spool.ends() == [1, 1]
            check(spool)
            check_marks(spool)
