"""Whatever becomes of the catalog, rows and marks are had from the segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.spool.rows import (
    check_all,
    check_marks,
    lose_catalog,
    open_spool,
    store,
)


def test_a_lost_catalog_loses_nothing_of_the_rows_and_marks(tmp_path: Path) -> None:
    with open_spool(tmp_path, segment_bytes=3000) as spool:
        store(spool, [3, 2], groups=6)
        spool.commit("query", [9, 6])
        while spool.trim():
            pass
        store(spool, [3, 2], groups=12)
        starts = spool.starts()
        assert starts != [0, 0]
    lose_catalog(tmp_path)
    with open_spool(tmp_path, segment_bytes=3000) as spool:
        assert spool.ends() == [54, 36]
        assert spool.starts() == starts
        # as it was when the newest segment was started
        assert spool.cursors() == {"query": [9, 6]}
        check_all(spool)
        check_marks(spool)
        store(spool, [1, 1])
        check_all(spool)


def test_a_damaged_catalog_is_built_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_spool(tmp_path, segment_bytes=3000) as spool:
        store(spool, [3, 2], groups=8)
    (tmp_path / "catalog.sqlite").write_bytes(b"no database at all " * 300)
    with open_spool(tmp_path) as spool:
        assert spool.ends() == [24, 16]
        check_all(spool)
        check_marks(spool)
    assert "built anew" in caplog.text
