"""FAULTS 36: cursors of some logs; what none of them has passed stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, InvalidOption
from aqueduct_core.spool import SpoolReader
from tests.core.spool.rows import check_all, open_spool, segments, store, trim_all


def test_a_log_that_is_not_read_holds_nothing_back(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [2, 1], groups=4)
        spool.commit("q", [6, None])
        assert spool.cursors() == {"q": [6, None]}
        assert trim_all(spool) == 3
        assert spool.starts() == [6, 3]
        spool.commit("q", [2, None])
        assert spool.cursors() == {"q": [6, None]}
        check_all(spool)
    with open_spool(tmp_path) as spool:
        assert spool.cursors() == {"q": [6, None]}
        with pytest.raises(DataLoss, match=r"OFFSET_AHEAD.*partition 0"):
            spool.commit("q", [9, None])


def test_data_stays_for_the_slowest_of_each_log(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [1, 1], groups=6)
        spool.commit("left", [5, None])
        spool.commit("right", [None, 3])
        spool.commit("both", [4, 5])
        assert trim_all(spool) == 3
        spool.drop("right")
        assert trim_all(spool) == 1
        spool.drop("both")
        assert trim_all(spool) == 1
        assert spool.starts() == [5, 5]


def test_an_owed_log_waits_for_its_first_reader(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1, owed_partitions=1) as spool:
        store(spool, [1, 1], groups=3)
        spool.commit("events", [None, 3])
        assert trim_all(spool) == 0
        store(spool, [0, 1], groups=2)
        spool.commit("query", [3, None])
        spool.commit("events", [None, 5])
        assert trim_all(spool) == 4
    with open_spool(tmp_path, segment_bytes=1) as spool:
        # without a debt the rows of the first log go with the second
        store(spool, [1, 1], groups=3)
        spool.drop("query")
        spool.commit("events", [None, 8])
        assert trim_all(spool) == 3


def test_a_cursor_is_entered_once_at_the_starts(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        store(spool, [2, 1], groups=4)
        spool.commit("first", [4, 2])
        assert trim_all(spool) == 2
        spool.enter_cursor("late", [True, False])
        assert spool.cursors()["late"] == [4, None]
        spool.commit("late", [6, None])
        spool.enter_cursor("late", [True, False])
        assert spool.cursors()["late"] == [6, None]
        # what stays is what the new one has not read
        spool.commit("first", [8, 4])
        assert trim_all(spool) == 1
    with SpoolReader(tmp_path) as reader:
        assert reader.cursors == {"first": [8, 4], "late": [6, None]}
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with open_spool(tmp_path) as spool:
        # the identity knows of both, as they were when the owner ended
        assert spool.cursors() == {"first": [8, 4], "late": [6, None]}
        assert spool.starts() == [6, 3]


def test_a_new_cursor_outlives_a_kill(tmp_path: Path) -> None:
    with open_spool(tmp_path / "spool") as spool:
        spool.enter_cursor("query", [True, True])
        shutil.copytree(tmp_path / "spool", tmp_path / "crashed")
    with open_spool(tmp_path / "crashed") as spool:
        assert spool.cursors() == {"query": [0, 0]}


def test_a_cursor_keeps_to_its_logs(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [1, 1])
        spool.enter_cursor("query", [True, False])
        for misuse in (
            lambda: spool.enter_cursor("query", [True, True]),
            lambda: spool.enter_cursor("query", [False, True]),
            lambda: spool.commit("query", [1, 1]),
            lambda: spool.commit("query", [None, 1]),
        ):
            with pytest.raises(InvalidOption, match=r"'query' reads the partitions \[0\]"):
                misuse()
        for misuse in (
            lambda: spool.enter_cursor("other", [False, False]),
            lambda: spool.commit("other", [None, None]),
        ):
            with pytest.raises(InvalidOption, match=r"BAD_VALUE.*'other' would read no partition"):
                misuse()
        with pytest.raises(ValueError, match="1 partitions of 2"):
            spool.enter_cursor("query", [True])
        assert spool.cursors() == {"query": [0, None]}


def test_a_cursor_of_some_logs_is_in_the_head_of_a_segment(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=1) as spool:
        spool.enter_cursor("query", [False, True])
        store(spool, [1, 1], groups=2)
        spool.commit("query", [None, 1])
        store(spool, [1, 1])
    (tmp_path / "catalog.sqlite").unlink()
    with open_spool(tmp_path) as spool:
        assert spool.cursors() == {"query": [None, 1]}
    assert len(segments(tmp_path)) == 3


def test_with_the_catalog_no_cursor_is_lost_and_none_comes_back(tmp_path: Path) -> None:
    """A crash, and no catalog after it: the identity says which cursors there are."""
    with open_spool(tmp_path / "spool", segment_bytes=1) as spool:
        for name in ("gone", "kept", "late"):
            store(spool, [1, 1])
            spool.enter_cursor(name, [True, name != "late"])
        spool.commit("kept", [1, 1])
        store(spool, [1, 1])
        spool.commit("kept", [2, 2])
        spool.drop("gone")
        ignored = shutil.ignore_patterns("catalog*")
        shutil.copytree(tmp_path / "spool", tmp_path / "crashed", ignore=ignored)
    with SpoolReader(tmp_path / "crashed") as reader:
        assert reader.cursors == {"kept": [2, 2], "late": [0, None]}
    with open_spool(tmp_path / "crashed") as spool:
        assert spool.cursors() == {"kept": [2, 2], "late": [0, None]}
