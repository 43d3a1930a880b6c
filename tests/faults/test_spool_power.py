"""FAULTS 16, 18: the power goes. What was reported stored is there; what was not may be torn."""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import Spool
from tests.core.spool.conftest import memory  # noqa: F401
from tests.core.spool.rows import (
    append,
    check_all,
    check_marks,
    check_rows,
    open_spool,
    segments,
    store,
)
from tests.faults.power import LateSync, PowerDisk
from tests.faults.spool_disks import MIB, ext4_image, may_mount, mounted
from tests.faults.test_spool_owners import owner, told
from tests.support.waiting import LONG

SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 12))]
CUTS = 14


@pytest.mark.parametrize(
    ("catalog", "step"),
    [
        ("kept", 7),
        ("lost", 29),
        pytest.param("kept", 1, marks=pytest.mark.long),
        pytest.param("lost", 5, marks=pytest.mark.long),
    ],
)
def test_fault_16_an_unreported_group_cut_at_every_byte(
    memory: Path,  # noqa: F811
    catalog: str,
    step: int,
) -> None:
    """It goes as a whole, and the next one takes its place."""
    spool_at, crashed = memory / "spool", memory / "crashed"
    with open_spool(spool_at) as spool:
        store(spool, [2, 1], groups=3)
        shutil.copytree(spool_at, crashed)
        (path,) = segments(spool_at)
        size = path.stat().st_size
        store(spool, [1, 2])
        whole = path.read_bytes()
    if catalog == "lost":
        for name in crashed.glob("catalog*"):
            name.unlink()
    for cut in (*range(size, len(whole), step), len(whole)):
        work = Path(shutil.copytree(crashed, memory / "work"))
        (work / path.name).write_bytes(whole[:cut])
        with open_spool(work) as spool:
            assert spool.ends() == ([7, 5] if cut == len(whole) else [6, 3]), cut
            check_all(spool)
            check_marks(spool)
            if cut % 8 == 0:
                store(spool, [1, 1])
                check_all(spool)
                check_marks(spool)
        shutil.rmtree(work)


@pytest.mark.parametrize("step", [13, pytest.param(3, marks=pytest.mark.long)])
def test_fault_16_a_reported_group_cut_at_every_byte(memory: Path, step: int) -> None:  # noqa: F811
    """A disk that forgets what it had synced: told, and its offsets are not given out again."""
    spool_at = memory / "spool"
    with open_spool(spool_at) as spool:
        store(spool, [2, 1], groups=3)
        (path,) = segments(spool_at)
        size = path.stat().st_size
        store(spool, [1, 2])
    whole = path.read_bytes()
    for cut in range(size, len(whole), step):
        work = Path(shutil.copytree(spool_at, memory / "work"))
        (work / path.name).write_bytes(whole[:cut])
        with open_spool(work) as spool:
            assert spool.ends() == [7, 5], cut
            check_rows(spool, 0, 0, 6)
            check_rows(spool, 1, 0, 3)
            with pytest.raises((SpoolFailed, DataLoss), match=r"CORRUPT|RANGE_GONE"):
                check_rows(spool, 1, 3, 5)
            if cut % 8 == 0:
                store(spool, [1, 1])
                check_rows(spool, 0, 7, 8)
        shutil.rmtree(work)


@pytest.mark.parametrize("seed", SEEDS)
def test_fault_18_pages_that_were_not_synced_are_lost(
    memory: Path,  # noqa: F811
    seed: int,
) -> None:
    """The power may go after any operation: 0 of what was reported is lost, none is there twice."""
    choose = random.Random(seed)
    directory = memory / "spool"
    cuts: list[tuple[Path, list[int], int, list[int]]] = []
    state: dict[str, Spool] = {}
    reported, committed = [0, 0], [0, 0]

    def watch() -> None:
        if len(cuts) < CUTS and choose.random() < 0.06:
            target = memory / f"cut {len(cuts)}"
            disk.cut(target, choose)
            epoch = state["spool"].epoch if state else 0
            cuts.append((target, list(reported), epoch, list(committed)))

    disk = PowerDisk(directory, watch)
    for _ in range(2):
        with open_spool(
            directory, disk=disk, sync=lambda: LateSync(disk, choose), segment_bytes=1500
        ) as spool:
            state["spool"] = spool
            ends = spool.ends()

            def durable(group: int, spool: Spool = spool) -> None:
                reported[:] = spool.ends()

            spool.on_durable = durable
            for _ in range(25):
                act = choose.random()
                if act < 0.6:
                    append(spool, ends, [choose.randint(1, 3), choose.randint(0, 2)])
                    spool.flush()
                elif act < 0.8:
                    spool.pump()
                else:
                    position = [max(0, end - 2) for end in spool.ends()]
                    spool.commit("q", position)
                    committed[:] = position
                    spool.trim()
        del state["spool"]
    assert len(cuts) >= 4
    for target, stored, epoch, cursor in cuts:
        with open_spool(target, segment_bytes=1500) as spool:
            assert spool.epoch > epoch
            assert all(a >= b for a, b in zip(spool.ends(), stored, strict=True)), target
            found = spool.cursors().get("q", [0, 0])
            assert all(a >= b for a, b in zip(found, cursor, strict=True)), target  # type: ignore[operator]
            assert all(a <= b for a, b in zip(spool.starts(), found, strict=True)), target  # type: ignore[operator]
            check_all(spool)
            check_marks(spool)
            store(spool, [1, 1])
            check_all(spool)


def wait_for_syncer(pid: int) -> None:
    """Until the syncer of this owner has nothing more to do."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    deadline = time.monotonic() + LONG
    for child in children:
        while Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            assert time.monotonic() < deadline
            select.select([], [], [], 0.01)


def readable(process: subprocess.Popen[str]) -> bool:
    assert process.stdout is not None
    return bool(select.select([process.stdout], [], [], 0)[0])


@contextmanager
def owner_on(
    image: Path, disk: Path, kind: str, directory: Path
) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """An owner at work on the device of an image, or in a plain directory."""
    if kind == "block device":
        with mounted(disk, "-o", "loop", image) as place, owner(place / "spool") as process:
            yield process, place / "spool"
    else:
        with owner(directory) as process:
            yield process, directory


@pytest.mark.parametrize("disk", ["block device"] if may_mount() else ["kill"])
def test_fault_18_the_disk_as_it_is_at_that_moment(tmp_path: Path, disk: str) -> None:
    """The blocks of the device are copied while its owner is at work: what the kernel still held
    back is not in the copy. Without the right to mount, the owner is killed instead."""
    image = ext4_image(tmp_path / "image", 24 * MIB) if disk == "block device" else tmp_path
    for turn in range(4):
        directory = tmp_path / f"spool {turn}"
        with owner_on(image, tmp_path / f"disk {turn}", disk, directory) as (process, spool_at):
            assert process.stdout is not None
            reported = [0, 0]
            for _ in range(5 + 7 * turn):
                reported = told(process.stdout.readline())[1]
            process.send_signal(signal.SIGSTOP)
            os.set_blocking(process.stdout.fileno(), False)
            rest = (os.read(process.stdout.fileno(), 1 << 20) or b"") if readable(process) else b""
            for line in rest.decode().splitlines():
                if len(line.split()) == 3:
                    reported = told(line)[1]
            wait_for_syncer(process.pid)
            copied = tmp_path / f"copy {turn}"
            if disk == "block device":
                shutil.copyfile(image, copied)
            else:
                shutil.copytree(spool_at, copied)
        if disk == "block device":
            with mounted(tmp_path / f"after {turn}", "-o", "loop", copied) as after:
                survives(after / "spool", reported)
        else:
            survives(copied, reported)


def survives(directory: Path, reported: list[int]) -> None:
    with open_spool(directory, segment_bytes=3000) as spool:
        assert all(a >= b for a, b in zip(spool.ends(), reported, strict=True))
        check_all(spool)
        check_marks(spool)
        store(spool, [1, 1])
        check_all(spool)
