from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.storage.fence import Fence
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_core.spool.lock import LOCK


def opened(directory: Path) -> Spool:
    return Spool.open(directory, schema=ROWS.schema, partitions=1, sync=InlineSync)


def test_the_owner_passes(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        fence = Fence(spool)
        for _ in range(3):
            fence.check()
        assert not fence.lost


def test_an_owner_that_lost_its_lock_is_fenced_by_its_successor_for_ever(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        fence = Fence(spool)
        fence.check()
        (tmp_path / LOCK).unlink()
        fence.check()
        with opened(tmp_path) as successor:
            assert successor.epoch == spool.epoch + 1
            with pytest.raises(SpoolFailed, match=r"SPOOL\.LOCKED.*epoch 2 after 1"):
                fence.check()
            assert fence.lost
            Fence(successor).check()
        with pytest.raises(SpoolFailed, match=r"LOCKED"):
            fence.check()


def test_a_directory_that_is_not_there_any_more_is_a_failure(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    with opened(directory) as spool:
        fence = Fence(spool)
        fence.check()
        directory.rename(tmp_path / "away")
        with pytest.raises(SpoolFailed, match=r"SPOOL\.IO.*epoch 1 is gone"):
            fence.check()
        # what comes back is not trusted: a successor may have been there meanwhile
        (tmp_path / "away").rename(directory)
        with pytest.raises(SpoolFailed, match=r"SPOOL\.IO"):
            fence.check()


@pytest.mark.parametrize("content", ["a copy", "nothing"])
def test_another_file_in_the_place_of_ours_is_not_ours(tmp_path: Path, content: str) -> None:
    with opened(tmp_path) as spool:
        fence = Fence(spool)
        (path,) = tmp_path.glob("owner-*")
        data = path.read_bytes()
        path.rename(tmp_path / "away")
        if content == "a copy":
            path.write_bytes(data)
        with pytest.raises(SpoolFailed, match=r"SPOOL\.IO"):
            fence.check()
