"""Rows that are given up, also behind the end of what is stored."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, InvalidOption, SpoolFailed
from aqueduct_core.spool import Disk
from tests.core.spool.rows import append, check_rows, open_spool, store

ROWS = (3, 2)


def test_rows_behind_the_end_are_given_up_while_groups_are_under_way(tmp_path: Path) -> None:
    """An older copy of the directory was put back: what was known of the rows after it is that
    they had offsets."""
    reports: list[list[int]] = []
    with open_spool(tmp_path) as spool:
        store(spool, ROWS)
        spool.on_durable = lambda group: reports.append(spool.ends())
        ends = spool.ends()
        append(spool, ends, ROWS)
        assert spool.flush()
        append(spool, ends, ROWS)
        with pytest.raises(InvalidOption, match="CONFLICT"):
            spool.skip(0, 3, 20, "what is under way lies there")
        with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
            spool.skip(0, 10, 20, "a hole would be left")
        spool.skip(0, 9, 20, "an old copy")
        assert reports[-1] == spool.ends() == [20, 6]
        spool.skip(0, 9, 20, "again")
        store(spool, ROWS)
        assert [len(list(spool.stretches(0, 0, 23))), spool.ends()] == [3, [23, 8]]
        killed = shutil.copytree(tmp_path, tmp_path / "killed")
    (killed / "catalog.sqlite").unlink()
    for directory in (tmp_path, killed):
        with open_spool(directory) as spool:
            assert spool.ends() == [23, 8]
            check_rows(spool, 0, 0, 9)
            check_rows(spool, 0, 20, 23)
            check_rows(spool, 1, 0, 8)
            with pytest.raises(DataLoss, match=r"SKIPPED.*9 to 20"):
                list(spool.read(0, 0, 23))


def test_without_space_no_offset_is_passed(tmp_path: Path) -> None:
    class Full(Disk):
        full = False

        def create(self, path: Path) -> int:
            if self.full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().create(path)

    disk = Full()
    with open_spool(tmp_path, disk=disk) as spool:
        store(spool, ROWS)
        disk.full = True
        for _ in range(2):
            with pytest.raises(SpoolFailed, match="FULL"):
                spool.skip(0, 3, 20, "an old copy")
            assert (spool.ends(), spool.skips) == ([3, 2], ())
        store(spool, ROWS)
        disk.full = False
        spool.skip(0, 6, 20, "an old copy")
        assert spool.ends() == [20, 4]
        store(spool, ROWS)
        check_rows(spool, 0, 20, 23)
