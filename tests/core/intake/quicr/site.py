"""Intake processes of QUICR, and what is durable in their spools."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.intake.quicr.rows import ROWS
from aqueduct_core.intake.quicr.settings import QuicrConnect, QuicrIntake
from aqueduct_core.intake.settings.intake import TlsSettings
from tests.core.quicr.ends import Objects
from tests.core.transport.ends import server_tls
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG, wait_until


def quicr_settings(site: Site, *, media: MediaIntake, **given: Any) -> QuicrIntake:
    if "connect" not in given:
        given = {"listen": "127.0.0.1:0", **given}
    return QuicrIntake(
        spool=str(site.spool),
        credentials=site.credentials,
        tls=TlsSettings(str(site._cert), str(site._key)),
        lease=LONG,
        protocol="quicr",
        media=media,
        **given,
    )


@asynccontextmanager
async def listening(site: Site, **media: Any) -> AsyncIterator[IntakeProcess]:
    """An intake to which publishers post."""
    async with _running(site, quicr_settings(site, media=MediaIntake(**media))) as process:
        yield process


@asynccontextmanager
async def asking(
    site: Site, *endpoints: str, urls: tuple[str, ...] = (), prefix: str | None = None, **media: Any
) -> AsyncIterator[IntakeProcess]:
    """An intake that dials, and asks for media."""
    authority = site.spool.parent.parent / "origin.pem"
    authority.write_bytes(server_tls().cert_pem or b"")
    connect = QuicrConnect(
        endpoints,
        ca_file=str(authority),
        first_wait=0.01,
        longest_wait=0.1,
        idle_timeout=LONG,
        urls=urls,
        subscribe_prefix=prefix,
    )
    settings = quicr_settings(site, media=MediaIntake(**media), connect=connect)
    async with _running(site, settings) as process:
        yield process


@asynccontextmanager
async def _running(site: Site, settings: QuicrIntake) -> AsyncIterator[IntakeProcess]:
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


async def rows_when(intake: IntakeProcess, count: int) -> list[dict[str, Any]]:
    """The rows, once there are so many."""

    def probe() -> list[dict[str, Any]] | None:
        rows, _ = _stored(intake)
        return rows if len(rows) >= count else None

    return await asyncio.to_thread(wait_until, probe, LONG, f"{count} rows")


async def event_when(intake: IntakeProcess, kind: str, count: int = 1) -> list[dict[str, Any]]:
    """The events of a kind, once there are so many."""

    def probe() -> list[dict[str, Any]] | None:
        events = [each for each in _stored(intake)[1] if each["kind"] == kind]
        return events if len(events) >= count else None

    return await asyncio.to_thread(wait_until, probe, LONG, f"{count} events {kind}")


def objects_of(rows: list[dict[str, Any]], url: str) -> list[tuple[tuple[int, int], Any, Any]]:
    """Position, flags and payload of the rows of a URL, in their order."""
    return [
        ((row["group_id"], row["object_id"]), row["flags"], row["value"])
        for row in rows
        if row["url"] == url
    ]


def expected(objects: Objects) -> list[tuple[tuple[int, int], Any, Any]]:
    return [(tuple(at), flags, payload) for at, (flags, payload) in objects.items()]  # type: ignore[misc]
