"""A version of aioquic that does not fit is named, with what has changed."""

from __future__ import annotations

import pytest
from aioquic.quic.connection import QuicConnection

from aqueduct_core.transport.aioquic.check import check


def test_the_check_names_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "2.0.0")
    monkeypatch.delattr(QuicConnection, "_write_stream_limits")
    with pytest.raises(ImportError, match=r"2\.0\.0.*_write_stream_limits.*from 1\.7 to before"):
        check()
