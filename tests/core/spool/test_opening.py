"""An opening leaves no more behind than it has to."""

from __future__ import annotations

from pathlib import Path

from tests.core.spool.rows import (
    open_spool,
    segments,
    store,
)


def test_openings_without_rows_leave_no_segments(tmp_path: Path) -> None:
    with open_spool(tmp_path) as spool:
        store(spool, [1, 1])
    for _ in range(5):
        open_spool(tmp_path).close()
    assert len(segments(tmp_path)) == 1
