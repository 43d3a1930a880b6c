"""A protocol with a carrier of its own through an intake process: no QUIC, and no certificate."""

from __future__ import annotations

import socket
from pathlib import Path

from msgspec.structs import replace

from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.settings.intake import TlsSettings
from aqueduct_core.primitives import varint
from aqueduct_core.primitives.host_port import HostPort
from tests.support.intake_process import IntakeProcess, Site
from tests.toy.plain import ADAPTER
from tests.toy.spools import toy_settings

PACKETS = [b"%d" % n for n in range(50)]
AGAIN = 0.2
"""Seconds without an answer after which a packet is sent again."""


def send_all(where: HostPort) -> None:
    """Return when all packets are stored."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(where)
        sock.settimeout(AGAIN)
        stored = 0
        while stored < len(PACKETS):
            sock.send(varint.encode(stored) + PACKETS[stored])
            try:
                stored = max(stored, varint.decode(sock.recv(100), 0, 100)[0])
            except TimeoutError:
                continue


def test_what_is_answered_is_stored(tmp_path: Path) -> None:
    site = Site(tmp_path)
    settings = replace(toy_settings(site), protocol="tests.toy.plain:ADAPTER", tls=TlsSettings())
    process = IntakeProcess(site, settings)
    try:
        process.wait_ready()
        assert process.ready["warnings"]
        send_all(HostPort.parse(process.listen))
        rows = []
        with process.client() as client:
            status = client.status()
            for log, (start, end) in enumerate(zip(status.starts, status.ends, strict=True)):
                for batch in client.read(Ticket(status.id, log, start, end)):
                    rows += ADAPTER.rows.expand(batch, log, start, False, False).to_pylist()
        assert [row["value"] for row in rows] == PACKETS
    finally:
        process.kill()
