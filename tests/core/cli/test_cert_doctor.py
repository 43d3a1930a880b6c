"""``aqueduct cert`` and ``aqueduct doctor``."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography import x509

from aqueduct_core.cli.main import main
from aqueduct_core.transport.tls.credentials import ServerTls, fingerprint
from tests.core.cli.running import aqueduct


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


def test_doctor_finds_everything_that_a_peer_needs(certificates: Path) -> None:
    done = aqueduct("doctor", "--no-spark", certificates / "cert.pem", certificates / "ca.pem")
    lines = done.stdout.decode().splitlines()
    graded = {line[6:24].strip(): line[:4].strip() for line in lines}
    assert graded["python"] == "ok", lines
    assert graded["aioquic"] == "ok", lines
    assert "java" not in graded
    assert "format aqueduct" not in graded
    assert graded["udp 127.0.0.1"] == "ok", lines
    assert graded["cert cert.pem"] == "ok", lines
    assert graded["cert ca.pem"] == "ok", lines
    assert "bad" not in graded.values()
    assert done.returncode == 0


def test_doctor_tells_what_is_wrong_with_a_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("no certificate")
    assert main(["doctor", "--no-spark", str(garbage), str(tmp_path / "missing.pem")]) == 1
    out = capsys.readouterr().out
    assert "garbage.pem holds no certificate in PEM form" in out
    assert "missing.pem cannot be read: No such file or directory" in out


def test_the_version_is_told() -> None:
    done = aqueduct("--version")
    assert done.returncode == 0
    assert done.stdout.startswith(b"aqueduct ")
