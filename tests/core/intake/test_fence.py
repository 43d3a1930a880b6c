from __future__ import annotations

import os
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.intake.fence import Fence
from aqueduct_core.intake.schema import SPOOL_SCHEMA
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_core.spool.identity import IDENTITY, LOCK


def opened(directory: Path) -> Spool:
    return Spool.open(directory, schema=SPOOL_SCHEMA, partitions=1, sync=InlineSync)


def test_the_owner_passes_and_a_check_reads_nothing_twice(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        fence = Fence(tmp_path, spool.id, spool.epoch)
        for _ in range(3):
            fence.check()
        os.utime(tmp_path / IDENTITY)  # touched, and still ours
        fence.check()


def test_an_owner_that_lost_its_lock_is_fenced_by_its_successor_for_ever(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        fence = Fence(tmp_path, spool.id, spool.epoch)
        fence.check()
        (tmp_path / LOCK).unlink()
        fence.check()
        with opened(tmp_path) as successor:
            assert successor.epoch == spool.epoch + 1
            with pytest.raises(SpoolFailed, match=r"SPOOL\.LOCKED.*epoch 2 after 1"):
                fence.check()
            Fence(tmp_path, successor.id, successor.epoch).check()
        with pytest.raises(SpoolFailed, match=r"LOCKED"):
            fence.check()


@pytest.mark.parametrize("content", [None, b"", b"{"])
def test_a_directory_that_is_not_there_any_more_is_a_failure(
    tmp_path: Path, content: bytes | None
) -> None:
    with opened(tmp_path) as spool:
        fence = Fence(tmp_path, spool.id, spool.epoch)
        fence.check()
        (tmp_path / IDENTITY).unlink()
        if content is not None:
            (tmp_path / IDENTITY).write_bytes(content)
        with pytest.raises(SpoolFailed, match=r"SPOOL\.IO"):
            fence.check()


def test_another_spool_in_its_place_is_not_ours(tmp_path: Path) -> None:
    with opened(tmp_path) as spool:
        fence = Fence(tmp_path, "another", spool.epoch)
        with pytest.raises(SpoolFailed, match=r"LOCKED"):
            fence.check()
