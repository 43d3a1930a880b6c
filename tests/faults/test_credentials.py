"""Certificates and tokens that change while an intake runs; row 31 of the matrix."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from aqueduct_core.errors import AuthFailed, TlsFailed
from aqueduct_core.intake.settings.intake import AuthSettings
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls
from tests.faults.load import PATIENCE, Load
from tests.faults.producer import PATIENT, Flow
from tests.spark.producing import numbered, produce
from tests.support.intake_process import Site
from tests.support.waiting import wait_until

FLOWS = [Flow("ordered", "readings", 300.0, 100)]


def put(site: Site, tls: ServerTls) -> None:
    """Replace the files one after the other, as a renewal does."""
    for name, pem in (("cert.pem", tls.cert_pem), ("key.pem", tls.key_pem)):
        assert pem is not None
        path = site.spool.parents[1] / name
        draft = path.with_suffix(".new")
        draft.write_bytes(pem)
        os.replace(draft, path)


def test_fault_31_a_renewed_certificate_is_served_without_a_restart(
    site: Site, producers: Load
) -> None:
    """Connections that are there go on; those who come trust the new one, and only it."""
    with site.intake() as intake:
        producers.start(intake.url, "p", flows=FLOWS, tls=site.client_tls, settings=PATIENT)
        producers.more_acks(50)
        fresh = ServerTls.self_signed()
        new = ClientTls(ca_pem=fresh.cert_pem)
        put(site, fresh)

        def served() -> bool:
            try:
                produce(intake.url, numbered(1), name="probe", tls=new)
            except TlsFailed:
                return False
            return True

        wait_until(served, PATIENCE, "the new certificate")
        with pytest.raises(TlsFailed, match="UNKNOWN_CA"):
            produce(intake.url, numbered(1), tls=site.client_tls)
        producers.more_acks(50)
        producers.settle(intake)
        assert [entry.reconnects for entry in producers.entries] == [0]


def test_fault_31_an_expired_certificate_and_another_authority(
    site: Site, producers: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To clients that come, it has expired as soon as their clocks say so; those who are there go
    on, and what the new one is signed by is what new clients have to trust."""
    with site.intake() as intake:
        producers.start(intake.url, "p", flows=FLOWS, tls=site.client_tls, settings=PATIENT)
        producers.more_acks(50)
        stranger = ClientTls(ca_pem=ServerTls.self_signed().cert_pem)
        with pytest.raises(TlsFailed, match="UNKNOWN_CA"):
            produce(intake.url, numbered(1), tls=stranger)
        later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=100_000)
        with monkeypatch.context() as clock:
            clock.setattr("aioquic.tls.utcnow", lambda: later)
            with pytest.raises(TlsFailed, match="EXPIRED"):
                produce(intake.url, numbered(1), tls=site.client_tls)
        produce(intake.url, numbered(5), name="again", tls=site.client_tls)
        producers.more_acks(50)
        producers.settle(intake)
        assert [entry.reconnects for entry in producers.entries] == [0]


def test_fault_31_a_token_withdrawn_refuses_new_connections_only(
    site: Site, producers: Load, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("first\n")
    with site.intake(auth=AuthSettings(token_file=str(tokens))) as intake:
        tls = site.client_tls
        producers.start(intake.url, "p", flows=FLOWS, tls=tls, token="first", settings=PATIENT)
        producers.more_acks(50)
        tokens.write_text("second\n")
        with pytest.raises(AuthFailed):
            produce(intake.url, numbered(1), token="first", tls=site.client_tls)
        produce(intake.url, numbered(5), name="again", token="second", tls=site.client_tls)
        producers.more_acks(50)
        producers.settle(intake)
        assert [entry.reconnects for entry in producers.entries] == [0]
