from __future__ import annotations

import os
from pathlib import Path

import pytest

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.sessions.authentication import Authentication
from aqueduct_core.intake.settings.intake import AuthSettings


def test_without_tokens_everybody_may() -> None:
    assert Authentication(AuthSettings()).refusal(None) is None
    assert Authentication(AuthSettings()).refusal("any") is None


def test_with_a_token_only_its_holder_may() -> None:
    admission = Authentication(AuthSettings(token="right"))
    assert admission.refusal("right") is None
    assert admission.refusal(None) is not None
    for wrong in ("", "righ", "rightt", "gänzlich falsch"):
        refusal = admission.refusal(wrong)
        assert refusal is not None
        assert "right" not in refusal


def test_the_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text("one\ntwo\n\n")
    admission = Authentication(AuthSettings(token_file=str(path)))
    assert admission.refusal("one") is None
    assert admission.refusal("two") is None
    fresh = tmp_path / "fresh"
    fresh.write_text("three\n")
    os.replace(fresh, path)
    assert admission.refusal("one") is not None
    assert admission.refusal("three") is None
    path.unlink()
    assert admission.refusal("three") is None


@pytest.mark.parametrize("content", [None, "", "\n \n"])
def test_a_file_that_is_missing_or_empty_is_refused_at_the_start(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "tokens"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidOption, match=r"BAD_VALUE.*auth\.tokenFile.*tokens"):
        Authentication(AuthSettings(token_file=str(path)))


def test_a_file_that_is_gone_has_one_line_however_many_come(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens"
    path.write_text("one\n")
    admission = Authentication(AuthSettings(token_file=str(path)))
    for _ in range(2):
        path.unlink()
        for _ in range(50):
            assert admission.refusal("one") is None
            assert admission.refusal("other") is not None
        path.write_text("one\n")
        assert admission.refusal("one") is None
    assert len(caplog.records) == 2
