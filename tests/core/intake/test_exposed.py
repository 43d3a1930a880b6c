"""A listener that everybody can reach and nobody has to prove anything to says so."""

from __future__ import annotations

import logging

import pytest

from aqueduct_core.aio.serve import bearer, serve
from aqueduct_core.intake.control import status_file
from aqueduct_core.intake.settings.intake import AuthSettings
from tests.support.event_loop import in_loop, server_tls
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


@in_loop
async def test_so_does_a_server(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for host, authorize in (("127.0.0.1", None), ("0.0.0.0", bearer("t"))):
        async with serve(host, 0, tls=server_tls(), authorize=authorize):
            assert not caplog.records
    async with serve("0.0.0.0", 0, tls=server_tls()) as server:
        assert f"everybody may connect to {server.url}" in caplog.text
