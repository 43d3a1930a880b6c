"""Space comes back when rows are read, and never before."""

from __future__ import annotations

from pathlib import Path

from tests.core.spool.rows import (
    check_all,
    check_marks,
    check_rows,
    open_spool,
    store,
    trim_all,
)


def test_full_never_deletes_unread_rows_and_ends_when_they_are_read(tmp_path: Path) -> None:
    with open_spool(tmp_path, max_bytes=40_000, retention=3600.0) as spool:
        while not spool.full:
            store(spool, [20, 20])
        assert spool.bytes >= 40_000
        assert trim_all(spool) == 0
        check_all(spool)
        half = [end // 2 for end in spool.ends()]
        spool.commit("q", half)
        assert trim_all(spool) > 0
        assert not spool.full
        check_rows(spool, 0, half[0], spool.ends()[0])


def test_a_segment_in_use_gives_its_space_back_when_all_is_read(tmp_path: Path) -> None:
    with open_spool(tmp_path, max_bytes=10_000) as spool:
        for _ in range(3):
            while not spool.full:
                store(spool, [5, 5])
            spool.commit("q", spool.ends())
            while spool.trim():
                pass
            assert spool.bytes < 4_000
            assert spool.starts() == spool.ends()
            check_marks(spool)
    with open_spool(tmp_path) as spool:
        check_marks(spool)
        store(spool, [1, 1])
        check_all(spool)
