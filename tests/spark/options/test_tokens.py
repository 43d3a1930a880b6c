"""Tokens and certificates are read when they are used, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.errors import AuthFailed, InvalidOption
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.transport.tls.credentials import ServerTls
from aqueduct_spark.options.access import TokenSource
from aqueduct_spark.options.source import Standalone
from aqueduct_spark.options.tokens import Token, standalone_credentials


def test_a_token_of_the_environment_is_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("T", "s3cret")
    token = Token.of(TokenSource(None, "T"))
    monkeypatch.delenv("T")
    assert token.value() == "s3cret"
    assert "s3cret" not in repr(token)
    with pytest.raises(AuthFailed, match=r"MISSING.*variable T "):
        Token.of(TokenSource(None, "T"))


def test_files_are_read_each_time(tmp_path: Path) -> None:
    authority, secret = tmp_path / "ca.pem", tmp_path / "token"
    auth = TokenSource(str(secret), None)
    source = Standalone((HostPort("h", 1),), str(authority), auth)
    token = Token.of(auth)
    for written in ("one", "two"):
        secret.write_text(written)
        authority.write_bytes(pem := ServerTls.self_signed([written]).cert_pem)
        found = standalone_credentials(source, token)
        assert (found.token, found.authority) == (written, pem)
    authority.write_text("no certificate")
    with pytest.raises(InvalidOption, match=r"'tls\.caFile' is '.*', which holds no certificate"):
        standalone_credentials(source, token)
    authority.unlink()
    with pytest.raises(InvalidOption, match=r"BAD_VALUE.*'tls\.caFile' is '.*ca\.pem'"):
        standalone_credentials(source, token)
