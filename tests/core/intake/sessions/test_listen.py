"""A listener that everybody can reach says so."""

from __future__ import annotations

import pytest

from aqueduct_core.intake.control import status_file
from aqueduct_core.intake.settings.intake import AuthSettings
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
