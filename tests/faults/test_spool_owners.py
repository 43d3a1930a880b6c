"""FAULTS 32, 36: two owners of one spool, and a query that falls behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import SpoolReader, holder
from tests.core.spool.rows import (
    append,
    check_all,
    check_marks,
    check_rows,
    open_spool,
    segments,
    store,
    trim_all,
)
from tests.support.repository import ROOT

OWNER = """
import sys
from pathlib import Path
from aqueduct_core.spool import SyncerProcess
from tests.core.spool.rows import append, open_spool
spool = open_spool(Path(sys.argv[1]), sync=SyncerProcess, segment_bytes=3000)
ends = spool.ends()
spool.on_durable = lambda group: print(spool.epoch, *spool.ends(), flush=True)
while True:
    append(spool, ends, [2, 1])
    spool.settle(10)
"""


@contextmanager
def owner(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that owns the spool, stores without end and says what is durable."""
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def told(line: str) -> tuple[int, list[int]]:
    epoch, *ends = map(int, line.split())
    return epoch, ends


def test_fault_32_the_second_owner_waits_for_the_end_of_the_first(tmp_path: Path) -> None:
    last_epoch, reported = 0, [0, 0]
    for _ in range(3):
        with owner(tmp_path) as process:
            assert process.stdout is not None
            for _ in range(5):
                epoch, reported = told(process.stdout.readline())
            assert epoch > last_epoch
            last_epoch = epoch
            assert holder(tmp_path) == process.pid
            with pytest.raises(SpoolFailed, match=f"LOCKED.*process {process.pid}"):
                open_spool(tmp_path)
            # stopped is not ended
            process.send_signal(signal.SIGSTOP)
            with pytest.raises(SpoolFailed, match="LOCKED"):
                open_spool(tmp_path)
            process.send_signal(signal.SIGCONT)
            process.kill()
            for line in process.stdout.read().splitlines():
                if len(line.split()) == 3:
                    reported = told(line)[1]
        # its syncer may still be at work, and changes nothing
        with open_spool(tmp_path, segment_bytes=3000) as spool:
            assert holder(tmp_path) == os.getpid()
            assert spool.epoch == last_epoch + 1
            last_epoch = spool.epoch
            assert all(a >= b for a, b in zip(spool.ends(), reported, strict=True))
            check_all(spool)
            check_marks(spool)
        assert holder(tmp_path) is None


def test_fault_32_an_owner_without_its_lock_reports_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock file was removed by hand, and another owner came: of the first one nothing counts
    from then on, and its rows are never shown for those of the second."""
    first = open_spool(tmp_path)
    reports: list[int] = []
    first.on_durable = reports.append
    store(first, [2, 1], groups=3)
    (tmp_path / "lock").unlink()
    with open_spool(tmp_path) as second:
        assert second.ends() == [6, 3]
        # offsets 6 and 7 of both, in a segment each: it had looked just before
        append(first, [6, 3], [1, 0])
        with monkeypatch.context() as patch:
            patch.setattr(first, "check_owner", lambda: None)
            assert first.flush()
        with pytest.raises(SpoolFailed, match=r"LOCKED.*epoch 2 after 1"):
            first.pump()
        with pytest.raises(SpoolFailed, match="another owner"):
            first.commit("q", [1, 1])
        assert reports == [1, 2, 3]
        assert first.ends() == [6, 3]
        store(second, [2, 1])
        first.close()
        check_all(second)
        ends = second.ends()
    for catalog in ("kept", "lost"):
        if catalog == "lost":
            (tmp_path / "catalog.sqlite").unlink()
        with SpoolReader(tmp_path) as reader:
            assert reader.ends() == ends
        with open_spool(tmp_path) as spool:
            assert spool.ends() == ends
            check_all(spool)
            check_marks(spool)
            store(spool, [1, 1])
            ends = spool.ends()


@pytest.mark.parametrize("restart", [False, True])
def test_fault_36_data_stays_for_the_slow_query(tmp_path: Path, restart: bool) -> None:
    spool = open_spool(tmp_path, segment_bytes=1)
    spool.enter_cursor("fast", [True, True])
    spool.enter_cursor("slow", [True, True])
    for turn in range(1, 9):
        store(spool, [2, 1])
        spool.commit("fast", spool.ends())
        trim_all(spool)
        if restart:
            spool.close()
            spool = open_spool(tmp_path, segment_bytes=1)
        assert spool.starts() == [0, 0]
        assert len(segments(tmp_path)) == turn
    # the slow one goes on, at its own pace
    check_rows(spool, 0, 0, 16)
    spool.commit("slow", [6, 3])
    assert trim_all(spool) == 3
    check_rows(spool, 0, 6, 16)
    # dropped, it frees; what it then asks for is refused, not skipped
    spool.drop("slow")
    assert trim_all(spool) == 4
    with pytest.raises(DataLoss, match=r"RANGE_GONE.*offsets 6 to 14"):
        spool.read(0, 6, 16)
    spool.close()
    with open_spool(tmp_path) as spool:
        assert set(spool.cursors()) == {"fast"}


def test_fault_36_a_full_spool_waits_for_the_slow_query(tmp_path: Path) -> None:
    """At its cap the spool pushes back; nothing goes that the slow one has not read."""
    with open_spool(tmp_path, segment_bytes=2000, max_bytes=12_000) as spool:
        spool.enter_cursor("slow", [True, True])
        most = 0
        read = [0, 0]
        for _ in range(60):
            while not spool.full:
                store(spool, [3, 2])
            most = max(most, spool.bytes)
            spool.commit("fast", spool.ends())
            trim_all(spool)
            assert spool.full
            # a little of the slow one
            step = [min(at + 6, end) for at, end in zip(read, spool.ends(), strict=True)]
            for partition in (0, 1):
                check_rows(spool, partition, read[partition], step[partition])
            read = step
            spool.commit("slow", read)
            while spool.trim():
                pass
        assert most < 12_000 + 2_000
        check_rows(spool, 0, read[0], spool.ends()[0])
