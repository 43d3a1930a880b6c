"""FAULTS 15, 36: space comes back in whole segments, and unread rows are never deleted."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss
from tests.core.spool.rows import check_all, check_marks, open_spool, segments, store, trim_all


def test_segments_below_all_cursors_go_one_a_call(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [2, 1], groups=6)
        assert not spool.trim()
        spool.commit("a", [8, 4])
        spool.commit("b", [5, 6])
        assert spool.cursors() == {"a": [8, 4], "b": [5, 6]}
        before = spool.bytes
        assert spool.trim()
        assert len(segments(tmp_path)) == 5
        assert not spool.trim()
        assert spool.starts() == [4, 2]
        assert spool.bytes == sum(path.stat().st_size for path in segments(tmp_path)) < before
        check_all(spool)
        with pytest.raises(DataLoss, match=r"RANGE_GONE.*partition 0: offsets 3 to 4"):
            spool.read(0, 3, 6)
        with pytest.raises(DataLoss, match="RANGE_GONE"):
            spool.read(1, 0, 1)
        spool.drop("b")
        assert trim_all(spool) == 2
        assert spool.starts() == [8, 4]
    with open_spool(tmp_path) as spool:
        assert spool.starts() == [8, 4]
        assert spool.cursors() == {"a": [8, 4]}
        check_all(spool)
        check_marks(spool)


def test_a_cursor_never_falls_back_and_never_runs_ahead(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [4, 4])
        spool.commit("q", [2, 3])
        spool.commit("q", [3, 1])
        assert spool.cursors() == {"q": [3, 3]}
        with pytest.raises(DataLoss, match=r"OFFSET_AHEAD.*partition 1.*5.*up to 4"):
            spool.commit("q", [4, 5])
        assert spool.cursors() == {"q": [3, 3]}
    with open_spool(tmp_path) as spool:
        assert spool.cursors() == {"q": [3, 3]}


def test_the_newest_segment_stays_with_its_marks(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [2, 1], groups=3)
        spool.commit("q", [6, 3])
    for _ in range(3):
        with open_spool(tmp_path, segment_bytes=1) as spool:
            trim_all(spool)
            assert len(segments(tmp_path)) == 1
            assert spool.ends() == [6, 3]
            check_marks(spool)


def test_what_is_committed_is_kept_for_its_time(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1, retention=3600.0) as spool:
        store(spool, [2, 1], groups=4)
        spool.commit("q", [8, 4])
        assert trim_all(spool) == 0
        assert trim_all(spool, time.time() + 3500) == 0
        assert trim_all(spool, time.time() + 3700) == 3


def test_a_cursor_on_an_empty_spool_is_kept(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        spool.commit("q", [0, 0])
    with open_spool(tmp_path, segment_bytes=1) as spool:
        assert spool.cursors() == {"q": [0, 0]}
        store(spool, [1, 1], groups=3)
        assert trim_all(spool) == 0


def test_a_slice_outlives_its_segment(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [3, 1], groups=2)
        reading = spool.read(0, 0, 3)
        (piece,) = spool.read(0, 0, 3)
        spool.commit("q", [3, 1])
        trim_all(spool)
        assert piece.column("number").to_pylist() == [0, 1, 2]
        with pytest.raises(DataLoss, match="RANGE_GONE"):
            list(reading)
