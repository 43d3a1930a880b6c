"""A version of aioquic that does not fit is named, with what has changed."""

from __future__ import annotations

import sys

import pytest
from aioquic.quic.connection import QuicConnection

from aqueduct_core.transport.aioquic.check import check, fast_paths


def test_the_check_names_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.0.0")
    monkeypatch.delattr(QuicConnection, "_write_stream_limits")
    with pytest.raises(ImportError, match=r"2\.0\.0.*_write_stream_limits.*from 1\.7 to before"):
        check()


@pytest.mark.parametrize("value", [None, "", "1", "0"])
def test_fast_paths_are_on_until_they_are_switched_off(
    value: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AQUEDUCT_FAST_PATHS", raising=False)
    if value is not None:
        monkeypatch.setenv("AQUEDUCT_FAST_PATHS", value)
    assert fast_paths() is (value != "0")


def test_a_version_that_nothing_was_proven_on_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AQUEDUCT_FAST_PATHS", "1")
    module = sys.modules[fast_paths.__module__]  # the package has a function of its name
    monkeypatch.setattr(module, "PROVEN", {"1.7.1"})
    assert not fast_paths()
