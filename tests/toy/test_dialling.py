"""An intake dials toys: it is sent away, dials again, stores what comes, and leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.settings.dial import ConnectSettings
from aqueduct_core.transport import Driver, LinkSettings, ListenedProtocol, PeerInfo, listen
from tests.core.intake.lives import run
from tests.core.transport.ends import server_tls
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG, wait_until
from tests.toy.dialling import ADAPTER, BUSY, ToySource
from tests.toy.engine import ALPN, Stored, ToyEvent
from tests.toy.spools import toy_settings

LINK = LinkSettings(max_streams_uni=1, max_streams_bidi=8)
MESSAGES = [b"%d" % n for n in range(2_000)]


class Station:
    """Who is dialled. The first ``busy`` that come are sent away. ``stored``: of whom we know how
    much; ``codes``: with which connections ended."""

    def __init__(self, topic: str, busy: int = 0) -> None:
        self.stored: list[int] = []
        self.codes: list[int] = []
        self._topic = topic
        self._busy = busy

    def accept(self, peer: PeerInfo, now: float) -> Any:
        source = ToySource()
        if self._busy:
            self._busy -= 1
            source.shutdown(BUSY, "come again", now)
        else:
            topic = source.open(self._topic)
            for message in MESSAGES:
                source.send(topic, message)
            source.finish(topic)
        return source, self._hear

    def _hear(self, driver: Driver, events: list[ToyEvent]) -> None:
        self.stored += [event.stop for event in events if isinstance(event, Stored)]
        if driver.engine.closed is not None:
            self.codes.append(driver.engine.closed.code)


@asynccontextmanager
async def listening(station: Station) -> AsyncIterator[str]:
    listener = await listen(
        "127.0.0.1", 0, {ALPN: ListenedProtocol(station.accept, LINK)}, tls=server_tls()
    )
    try:
        yield f"127.0.0.1:{listener.address[1]}"
    finally:
        await listener.close()


@asynccontextmanager
async def dialling(site: Site, *endpoints: str) -> AsyncIterator[IntakeProcess]:
    authority = site.spool.parent.parent / "toys.pem"
    authority.write_bytes(server_tls().cert_pem or b"")
    connect = ConnectSettings(
        endpoints, ca_file=str(authority), first_wait=0.01, longest_wait=0.1, idle_timeout=LONG
    )
    protocol = "tests.toy.dialling:ADAPTER"
    process = IntakeProcess(
        site, replace(toy_settings(site), listen=None, connect=connect, protocol=protocol)
    )
    try:
        await asyncio.to_thread(process.wait_ready)
        yield process
    finally:
        process.kill()


async def completed(intake: IntakeProcess) -> IntakeStatus:
    def probe() -> IntakeStatus | None:
        status = intake.status()
        return status if status.complete else None

    return await asyncio.to_thread(wait_until, probe, LONG, "the end of what is wanted")


def rows(intake: IntakeProcess) -> list[dict[str, Any]]:
    with intake.client() as client:
        status = client.status()
        return [
            row
            for log, (start, end) in enumerate(zip(status.starts, status.ends, strict=True))
            for batch in client.read(Ticket(status.id, log, start, end))
            for row in ADAPTER.rows.expand(batch, log, start, False, False).to_pylist()
        ]


def test_an_intake_dials_toys_until_it_has_what_it_wants(tmp_path: Path) -> None:
    site, near, far = Site(tmp_path), Station("near"), Station("far", busy=2)

    async def main() -> None:
        async with (
            listening(near) as one,
            listening(far) as other,
            dialling(site, one, other) as intake,
        ):
            status = await completed(intake)
            assert status.subscriptions is not None
            assert status.subscriptions.settled
            assert [each.attempts for each in status.subscriptions.endpoints] == [1, 3]
            assert (status.subscriptions.requested, status.subscriptions.finished) == (2, 2)
            stored = await asyncio.to_thread(rows, intake)
            for topic in ("near", "far"):
                assert [row["value"] for row in stored if row["topic"] == topic] == MESSAGES
            assert await asyncio.to_thread(intake.terminate) == 0

    run(main())
    assert (near.stored[-1], far.stored[-1]) == (len(MESSAGES), len(MESSAGES))
    assert (near.codes, far.codes) == ([0], [BUSY, BUSY, 0])


def test_what_has_finished_is_not_dialled_for_again(tmp_path: Path) -> None:
    site, station = Site(tmp_path), Station("once")

    async def main() -> None:
        async with listening(station) as where:
            for attempts in (1, 0):
                async with dialling(site, where) as intake:
                    status = await completed(intake)
                    assert status.subscriptions is not None
                    assert status.subscriptions.endpoints[0].attempts == attempts
                    assert len(await asyncio.to_thread(rows, intake)) == len(MESSAGES)
                    assert await asyncio.to_thread(intake.terminate) == 0

    run(main())
    assert station.codes == [0]
