"""The process that syncs: batches, says errors, and never outlives its owner."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool import SyncerProcess, syncer
from aqueduct_core.spool.sync import wait_readable
from tests.core.spool.rows import append, check_all, open_spool, store
from tests.support.repository import ROOT
from tests.support.waiting import LONG

OWNER = """
import sys
from pathlib import Path
from aqueduct_core.spool import SyncerProcess
from tests.core.spool.rows import open_spool, store
syncers = []
def start():
    syncers.append(SyncerProcess())
    return syncers[0]
spool = open_spool(Path(sys.argv[1]), sync=start)
store(spool, [1, 1])
print(syncers[0].pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def port() -> Iterator[SyncerProcess]:
    process = SyncerProcess()
    yield process
    process.close()


def answer(port: SyncerProcess, group: int) -> None:
    deadline = time.monotonic() + LONG
    while port.answered() < group:
        assert time.monotonic() < deadline
        wait_readable(port.fileno(), 1)


def test_it_answers_with_the_highest_group(port: SyncerProcess, tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    files = []
    for number in range(3):
        files.append(os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT))
        port.start(files[-1], directory)
        for group in range(1, 6):
            os.write(files[-1], b"x" * 1000)
            port.request(number * 10 + group)
    answer(port, 25)
    assert port.answered() == 25
    for fd in (directory, *files):
        os.close(fd)


def test_a_slow_syncer_makes_nobody_wait(port: SyncerProcess, tmp_path: Path) -> None:
    """While it is stopped the socket fills up; what did not fit is asked for when it answers
    again."""
    directory = os.open(tmp_path, os.O_RDONLY)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    port.start(file, directory)
    os.kill(port.pid, signal.SIGSTOP)
    for group in range(1, 5000):
        port.request(group)  # returns, though nobody reads
    os.kill(port.pid, signal.SIGCONT)
    answer(port, 4999)
    assert port.answered() == 4999
    os.close(file)
    os.close(directory)


def test_a_failed_sync_is_told_and_ends_it(port: SyncerProcess, tmp_path: Path) -> None:
    directory = os.open(tmp_path, os.O_RDONLY)
    # a pipe cannot be synced: the error of the system comes back as it is
    read, write = os.pipe()
    port.start(write, directory)
    port.request(1)
    assert wait_readable(port.fileno(), LONG)
    with pytest.raises(OSError, match="Invalid argument"):
        port.answered()
    port.request(2)
    with pytest.raises(OSError, match="Invalid argument"):
        port.answered()
    for fd in (directory, read, write):
        os.close(fd)


def test_the_spool_fails_with_its_syncer(tmp_path: Path) -> None:
    started: list[SyncerProcess] = []

    def start() -> SyncerProcess:
        started.append(SyncerProcess())
        return started[0]

    spool = open_spool(tmp_path, sync=start)
    store(spool, [2, 1])
    os.kill(started[0].pid, signal.SIGKILL)
    assert select.select([spool.fileno()], [], [], LONG)[0]
    append(spool, spool.ends(), [2, 1])
    spool.flush()
    with pytest.raises(SpoolFailed, match=r"IO.*syncer process"):
        spool.pump()
    assert spool.failed
    spool.close()
    with open_spool(tmp_path) as spool:
        check_all(spool)


@pytest.mark.parametrize("wait", ["settle", "close", "pump"])
def test_groups_in_flight_fail_with_the_syncer(tmp_path: Path, wait: str) -> None:
    """It is killed while it has not done what it was asked: nothing waits for it for ever, and
    nothing is reported."""
    started: list[SyncerProcess] = []
    reports: list[int] = []

    def start() -> SyncerProcess:
        started.append(SyncerProcess())
        return started[0]

    spool = open_spool(tmp_path, sync=start)
    spool.on_durable = reports.append
    store(spool, [2, 1])
    os.kill(started[0].pid, signal.SIGSTOP)
    ends = spool.ends()
    for _ in range(2):
        append(spool, ends, [2, 1])
        assert spool.flush()
    os.kill(started[0].pid, signal.SIGKILL)
    if wait == "pump":
        assert wait_readable(spool.fileno(), LONG)
    with pytest.raises(SpoolFailed, match=r"IO.*syncer process"):
        {"settle": spool.settle, "close": lambda: spool.close(LONG), "pump": spool.pump}[wait]()
    assert (reports, spool.ends(), spool.failed) == ([1], [2, 1], True)
    with pytest.raises((SpoolFailed, ValueError), match=r"IO|closed"):
        spool.settle()
    spool.close()
    with open_spool(tmp_path) as spool:
        assert spool.ends() == ends
        check_all(spool)


def test_signals_to_the_owner_do_not_reach_it(port: SyncerProcess, tmp_path: Path) -> None:
    assert os.getsid(port.pid) != os.getsid(0)
    directory = os.open(tmp_path, os.O_RDONLY)
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    port.start(file, directory)
    port.request(1)
    answer(port, 1)
    os.kill(port.pid, signal.SIGTERM)
    port.request(2)
    answer(port, 2)
    os.close(file)
    os.close(directory)


def test_it_ends_when_its_owner_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        watch = os.pidfd_open(pid)
        owner.kill()
        owner.wait()
    assert select.select([watch], [], [], LONG)[0]
    os.close(watch)


def test_it_imports_next_to_nothing() -> None:
    source = Path(syncer.__file__)
    code = f"import runpy, sys; runpy.run_path({str(source)!r}); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"pyarrow", "numpy", "asyncio", "aqueduct_core", "site"} & set(loaded)


def test_it_starts_from_its_source_where_there_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncer, "__file__", str(tmp_path / "archive.zip" / "syncer.py"))
    with open_spool(tmp_path / "spool", sync=SyncerProcess) as spool:
        store(spool, [1, 1])
        assert spool.ends() == [1, 1]


def test_the_owner_that_hangs_up_ends_it() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with (
        theirs,
        subprocess.Popen(
            [sys.executable, "-I", "-S", syncer.__file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
        ) as process,
    ):
        ours.close()
        theirs.close()
        assert process.wait(LONG) == 0
