"""Intake processes of Telehash, and what is durable in their spools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.settings.intake import TlsSettings
from aqueduct_core.intake.telehash.channels import ChannelIntake
from aqueduct_core.intake.telehash.rows import ROWS
from aqueduct_core.intake.telehash.settings import TelehashConnect, TelehashIntake
from tests.support.event_loop import server_tls
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG, wait_until

CHANNELS = ("ack_level", "window", "channel_timeout")


def telehash_settings(site: Site, **given: Any) -> TelehashIntake:
    channels = {key: given.pop(key) for key in CHANNELS if key in given}
    if "connect" not in given:
        given = {"listen": "127.0.0.1:0", **given}
    plain = given.get("carrier") == "udp"
    return TelehashIntake(
        spool=str(site.spool),
        credentials=site.credentials,
        tls=TlsSettings() if plain else TlsSettings(str(site._cert), str(site._key)),
        lease=LONG,
        channels=ChannelIntake(**channels),
        **given,
    )


@asynccontextmanager
async def listening(site: Site, **given: Any) -> AsyncIterator[IntakeProcess]:
    async with _running(site, telehash_settings(site, **given)) as process:
        yield process


@asynccontextmanager
async def opening(site: Site, *endpoints: str, **given: Any) -> AsyncIterator[IntakeProcess]:
    """An intake that dials, and opens channels."""
    authority = site.spool.parent.parent / "peer.pem"
    authority.write_bytes(server_tls().cert_pem or b"")
    connect = TelehashConnect(
        endpoints,
        ca_file=str(authority),
        first_wait=0.01,
        longest_wait=0.1,
        idle_timeout=LONG,
    )
    async with _running(site, telehash_settings(site, connect=connect, **given)) as process:
        yield process


@asynccontextmanager
async def _running(site: Site, settings: TelehashIntake) -> AsyncIterator[IntakeProcess]:
    process = IntakeProcess(site, settings)
    try:
        await asyncio.to_thread(process.wait_ready)
        yield process
    finally:
        process.kill()


def _stored(intake: IntakeProcess) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    with intake.client() as client:
        status = client.status()
        logs = [*zip(status.starts, status.ends, strict=True), status.events]
        for log, (offset, end) in enumerate(logs):
            for batch in client.read(Ticket(status.id, log, offset, end)):
                if log < len(status.ends):
                    rows += ROWS.expand(batch, log, offset, False, False).to_pylist()
                else:
                    events += ROWS.expand_events(batch, log, offset).to_pylist()
                offset += batch.num_rows
    return rows, events


async def stored(intake: IntakeProcess) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows and events."""
    return await asyncio.to_thread(_stored, intake)


async def status_when(
    intake: IntakeProcess, condition: Callable[[IntakeStatus], Any]
) -> IntakeStatus:
    """The first status for which the condition holds."""

    def probe() -> IntakeStatus | None:
        status = intake.status()
        return status if condition(status) else None

    return await asyncio.to_thread(wait_until, probe, LONG, "a status as wanted")
