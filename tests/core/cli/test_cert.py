"""``aqueduct cert``: a pair that serves, and an authority that vouches for it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509

from aqueduct_core.cli.main import main
from aqueduct_core.transport.tls.credentials import ServerTls, fingerprint


def test_cert_writes_a_pair_that_serves_and_an_authority_that_vouches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "new" / "directory"
    assert main(["cert", str(directory), "--name", "example.org", "--days", "30"]) == 0
    out = capsys.readouterr().out
    assert sorted(path.name for path in directory.iterdir()) == ["ca.pem", "cert.pem", "key.pem"]
    assert stat.S_IMODE((directory / "key.pem").stat().st_mode) == 0o600
    tls = ServerTls(cert_file=directory / "cert.pem", key_file=directory / "key.pem")
    leaf = tls.checked().certificate
    authority = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())
    leaf.verify_directly_issued_by(authority)
    assert fingerprint(leaf) in out
    assert f"{leaf.not_valid_after_utc:%Y-%m-%d}" in out
    assert "example.org" in out
    assert "PRIVATE" not in out


def test_cert_refuses_to_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "key.pem").write_text("precious")
    assert main(["cert", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("[AQUEDUCT_INVALID_OPTION.CONFLICT] ")
    assert "key.pem" in error
    assert (tmp_path / "key.pem").read_text() == "precious"
    assert not (tmp_path / "cert.pem").exists()


def test_cert_refuses_a_validity_out_of_range(tmp_path: Path) -> None:
    assert main(["cert", str(tmp_path / "c"), "--days", "0"]) == 1
    assert not (tmp_path / "c").exists()
