"""Certificates: made, loaded, checked; keys never shown."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from aqueduct_core.errors import InvalidOption, TlsFailed
from aqueduct_core.primitives.certificates import Issued
from aqueduct_core.transport import (
    ServerTls,
    issue,
    listen,
    make_authority,
)
from tests.core.transport.ends import ALPN, counted
from tests.support.virtual_loop import run_virtually

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def files(tmp_path: Path, leaf: Issued) -> ServerTls:
    cert, key = tmp_path / "cert.pem", tmp_path / "cert.key"
    cert.write_bytes(leaf.cert_pem)
    key.write_bytes(leaf.key_pem)
    return ServerTls(cert_file=cert, key_file=key)


async def start(tls: ServerTls) -> None:
    listener = await listen(
        "127.0.0.1",
        0,
        {ALPN: counted()},
        tls=tls,
    )
    await listener.close()


def test_keys_are_in_no_repr() -> None:
    tls = ServerTls.self_signed()
    authority = make_authority()
    assert tls.key_pem is not None
    for shown in (repr(tls), repr(tls.identity), repr(authority), str(tls)):
        assert "PRIVATE" not in shown
        assert "key_pem" not in shown
        assert "key=" not in shown


def test_an_expired_certificate_fails_at_start_and_is_named(tmp_path: Path) -> None:
    old = issue(make_authority(), ["localhost"], days=1, at=NOW - 5 * DAY)
    tls = files(tmp_path, old)
    with pytest.raises(TlsFailed, match=r"EXPIRED.*cert\.pem.*expired at") as caught:
        run_virtually(start(tls))
    assert caught.value.subclass == "EXPIRED"


def test_a_certificate_of_the_future_fails_at_start(tmp_path: Path) -> None:
    leaf = issue(make_authority(), ["localhost"], at=NOW + 2 * DAY)
    with pytest.raises(TlsFailed, match="valid only from"):
        run_virtually(start(files(tmp_path, leaf)))


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    leaf = issue(make_authority(), ["localhost"])
    tls = files(tmp_path, leaf)
    assert tls.cert_file is not None
    assert tls.key_file is not None
    run_virtually(start(tls))
    cases = [
        (ServerTls(tmp_path / "gone.pem", tls.key_file), "gone.pem.*No such file"),
        (ServerTls(tls.cert_file, tmp_path / "gone.key"), "gone.key.*No such file"),
        (ServerTls(tls.key_file, tls.key_file), r"cert\.key holds no certificate"),
        (ServerTls(tls.cert_file, tls.cert_file), r"cert\.pem holds no private key"),
        (ServerTls(tls.cert_file), "needs a key"),
        (ServerTls(), "needs a certificate"),
    ]
    other = tmp_path / "other.key"
    other.write_bytes(make_authority().key_pem)
    cases.append((ServerTls(tls.cert_file, other), r"other\.key is not the key of .*cert\.pem"))
    locked = tmp_path / "locked.key"
    key = serialization.load_pem_private_key(leaf.key_pem, None)
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    cases.append((ServerTls(tls.cert_file, locked), r"locked\.key is encrypted"))
    for broken, text in cases:
        with pytest.raises(InvalidOption, match=text) as caught:
            run_virtually(start(broken))
        assert "BEGIN" not in str(caught.value)
