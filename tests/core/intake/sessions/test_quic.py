"""A listener whose certificate is replaced shows the new one."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.intake.sessions.quic import CertificateFiles
from aqueduct_core.transport.tls.credentials import ServerTls


def test_fault_31_files_that_do_not_fit_change_nothing(tmp_path: Path) -> None:
    """A certificate without its key, rubbish, a file that is gone: the old one stays."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    first, second = ServerTls.self_signed(), ServerTls.self_signed()
    cert.write_bytes(first.cert_pem or b"")
    key.write_bytes(first.key_pem or b"")
    files = CertificateFiles(cert, key)
    assert files.renewed() is None
    cert.write_bytes(second.cert_pem or b"")
    assert files.renewed() is None
    cert.write_bytes(b"rubbish")
    assert files.renewed() is None
    cert.unlink()
    assert files.renewed() is None
    cert.write_bytes(second.cert_pem or b"")
    key.write_bytes(second.key_pem or b"")
    renewed = files.renewed()
    assert renewed is not None
    assert renewed.fingerprint == second.fingerprint
    assert files.renewed() is None
