"""FAULTS 16, 19: the owner is killed, and the group that it reported last is damaged meanwhile.

The end of the log then is below what was reported stored: that is told, with the offsets, and these
are never given out again. A group that was not reported goes without a word, as ever.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool import Spool, SpoolReader
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

Damage = Callable[[Path, int, int], None]


def flipped(path: Path, start: int, size: int) -> None:
    data = bytearray(path.read_bytes())
    data[(start + size) // 2] ^= 1
    path.write_bytes(data)


def truncated(path: Path, start: int, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate((start + size) // 2)


def cut_off(path: Path, start: int, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(start)


def zeroed(path: Path, start: int, size: int) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(bytes(size - start))


def killed(spool: Spool, target: Path) -> Path:
    """The files as they are when the owner is killed at this moment: all that it wrote is there."""
    return Path(shutil.copytree(spool.directory, target))


def refusal(spool: Spool | SpoolReader, partition: int, start: int, end: int) -> str:
    try:
        check_rows(spool, partition, start, end)
    except (SpoolFailed, DataLoss) as error:
        return error.what
    return ""


def missed(spool: Spool | SpoolReader) -> list[int]:
    """The partitions whose rows of the last group cannot be read; an error names the offsets."""
    found = []
    for partition, start, end in ((0, 6, 7), (1, 3, 5)):
        told = refusal(spool, partition, start, end)
        if told:
            assert f"partition {partition}, offset" in told
            assert f" {start} to {end} (exclusive)" in told
            found.append(partition)
    return found


@pytest.mark.parametrize("catalog", ["kept", "lost"])
@pytest.mark.parametrize("damage", [flipped, truncated, cut_off, zeroed])
@pytest.mark.parametrize("roll", [1, 1 << 20])
def test_fault_16_the_last_reported_group_is_missed(
    memory: Path,  # noqa: F811
    damage: Damage,
    catalog: str,
    roll: int,
) -> None:
    with open_spool(memory / "spool", segment_bytes=roll) as spool:
        store(spool, [2, 1], groups=3)
        before = segments(memory / "spool")[-1].stat().st_size if roll > 1 else 0
        store(spool, [1, 2])
        work = killed(spool, memory / "work")
    path = segments(work)[-1]
    damage(path, before, path.stat().st_size)
    if catalog == "lost":
        (work / "catalog.sqlite").unlink()
    for opened in (lambda: SpoolReader(work), lambda: open_spool(work, segment_bytes=roll)):
        with opened() as spool:
            assert spool.ends() == [7, 5]
            check_rows(spool, 0, 0, 6)
            check_rows(spool, 1, 0, 3)
            assert missed(spool)
    with open_spool(work, segment_bytes=roll) as spool:
        store(spool, [1, 1])
        check_rows(spool, 0, 7, 8)
        check_rows(spool, 1, 5, 6)
        assert missed(spool)
    with open_spool(work) as spool:
        assert spool.ends() == [8, 6]


@pytest.mark.parametrize("damage", [flipped, truncated, cut_off, zeroed])
def test_fault_16_a_group_that_was_not_reported_is_cut(
    memory: Path,  # noqa: F811
    damage: Damage,
) -> None:
    with open_spool(memory / "spool") as spool:
        store(spool, [2, 1], groups=3)
        before = segments(memory / "spool")[-1].stat().st_size
        append(spool, spool.ends(), [1, 2])
        assert spool.flush()
        work = killed(spool, memory / "work")
    path = segments(work)[-1]
    damage(path, before, path.stat().st_size)
    with open_spool(work) as spool:
        assert spool.ends() == [6, 3]
        check_all(spool)
        check_marks(spool)
        store(spool, [1, 1])
        check_all(spool)


@pytest.mark.parametrize("slot", [0, 1])
@pytest.mark.parametrize("position", [0, 9, 40, 4095])
def test_a_damaged_mark_is_no_mark(memory: Path, slot: int, position: int) -> None:  # noqa: F811
    """Of the other slot, the notes and the segments each says enough as long as one is right."""
    with open_spool(memory / "spool") as spool:
        store(spool, [2, 1], groups=4)
        work = killed(spool, memory / "work")
    (claim,) = work.glob("owner-*")
    data = bytearray(claim.read_bytes())
    data[slot * 4096 + position] ^= 4
    claim.write_bytes(data)
    with open_spool(work) as spool:
        assert spool.ends() == [8, 4]
        assert spool.epoch == 2
        check_all(spool)
        check_marks(spool)


def test_the_mark_outlives_openings_that_store_nothing(memory: Path) -> None:  # noqa: F811
    with open_spool(memory / "spool") as spool:
        store(spool, [2, 1], groups=2)
        work = killed(spool, memory / "work 0")
    path = segments(work)[-1]
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 8)
    for turn in range(1, 4):
        (work / "catalog.sqlite").unlink()
        with open_spool(work) as spool:
            assert spool.ends() == [4, 2]
            work = killed(spool, memory / f"work {turn}")
