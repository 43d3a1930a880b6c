"""A listener that everybody can reach says so, and one whose certificate is replaced shows the new
one."""

from __future__ import annotations

from pathlib import Path

import pytest

from aqueduct_core.intake.control import status_file
from aqueduct_core.intake.sessions.listen import CertificateFiles
from aqueduct_core.intake.settings.intake import AuthSettings
from aqueduct_core.transport.tls.credentials import ServerTls
from tests.support.intake_process import Site

EVERYBODY = "everybody who reaches"


@pytest.mark.parametrize(
    ("listen", "auth", "warned"),
    [
        ("0.0.0.0:0", AuthSettings(), True),
        ("0.0.0.0:0", AuthSettings(token="t"), False),
        ("127.0.0.1:0", AuthSettings(), False),
    ],
)
def test_an_intake_warns_in_log_and_status(
    site: Site, listen: str, auth: AuthSettings, warned: bool
) -> None:
    with site.intake(listen=listen, auth=auth) as intake:
        status = status_file.read(site.spool)
        assert status is not None
        assert intake.status().warnings == tuple(status["warnings"])
        assert tuple(intake.ready["warnings"]) == tuple(status["warnings"])
        assert [EVERYBODY in warning for warning in status["warnings"]] == [True] * warned
    assert (f"WARNING aqueduct_core.intake.service: {EVERYBODY}" in site.log.read_text()) is warned


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
