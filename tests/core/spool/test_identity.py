"""Whose directory it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aqueduct_core.errors import SpoolFailed
from tests.core.spool.rows import (
    check_all,
    open_spool,
    segments,
    store,
)


def test_a_lost_identity_is_found_in_the_segments(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [1, 1])
        name, epoch = spool.id, spool.epoch
    (tmp_path / "spool.json").unlink()
    with open_spool(tmp_path) as spool:
        assert spool.id == name
        assert spool.epoch > epoch
        check_all(spool)


def test_a_segment_of_another_spool_is_refused(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        with open_spool(tmp_path / name) as spool:
            store(spool, [1, 1])
    shutil.copy(segments(tmp_path / "theirs")[0], segments(tmp_path / "ours")[0])
    with pytest.raises(SpoolFailed, match=r"CORRUPT.*belongs to the spool"):
        open_spool(tmp_path / "ours")
