"""Bounds of a spool are legal from birth."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from tests.core.spool.rows import open_spool


@pytest.mark.parametrize(
    "setting", ["segment_bytes", "max_bytes", "max_tracks", "max_ranges", "max_total_ranges"]
)
def test_settings_are_checked(tmp_path: Path, setting: str) -> None:
    with pytest.raises(InvalidOption, match=f"BAD_VALUE.*{setting} is 0"):
        open_spool(tmp_path, **{setting: 0})
    with pytest.raises(InvalidOption, match=r"BAD_VALUE.*retention"):
        open_spool(tmp_path, retention=-1.0)
