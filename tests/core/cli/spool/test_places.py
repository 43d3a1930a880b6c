"""Where there is no spool, or that of another user."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.core.cli.spool.stored import error


@pytest.mark.parametrize("what", ["ls", "cat", "verify", "cursors", "settings"])
def test_where_there_is_no_spool(
    tmp_path: Path, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert str(tmp_path) in error(capsys, "AQUEDUCT_SPOOL.IO", what, tmp_path)
    assert "nowhere" in error(capsys, "AQUEDUCT_SPOOL.IO", what, tmp_path / "nowhere")


def test_spools_with_names_of_their_own_are_named(
    ended: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ended.rename(ended.with_name("orders"))
    assert f"Name what is below it: {named}" in error(
        capsys, "AQUEDUCT_SPOOL.IO", "ls", named.parent
    )


@pytest.mark.parametrize("what", ["ls", "cat", "verify", "cursors", "settings"])
def test_the_spool_of_another_user(
    ended: Path, what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of others, as a process without the right to see them meets them: root has it."""
    plain = Path.stat

    def refused(path: Path, **how: bool) -> os.stat_result:
        if path.parent == ended:
            raise PermissionError(13, "Permission denied", str(path))
        return plain(path, **how)

    monkeypatch.setattr(Path, "stat", refused)
    monkeypatch.setattr(os, "geteuid", lambda: 65_000)
    line = error(capsys, "AQUEDUCT_SPOOL.FORBIDDEN", what, ended)
    assert f"{ended} cannot be used: it belongs to" in line
    assert "this process runs as user 65000" in line
    assert "Run it as" in line
