"""Where there is no spool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.cli.spool.stored import error


@pytest.mark.parametrize("what", ["ls", "cat", "verify", "cursors", "settings"])
def test_where_there_is_no_spool(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(tmp_path) in error(capsys, "AQUEDUCT_SPOOL.IO", what, tmp_path)
    assert "nowhere" in error(capsys, "AQUEDUCT_SPOOL.IO", what, tmp_path / "nowhere")
