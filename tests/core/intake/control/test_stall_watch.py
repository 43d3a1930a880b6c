"""A real intake tells in its log and in its status what it waits for, and when that is over."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aqueduct_core.aio.connect import connect
from aqueduct_core.intake.aqueduct.settings import AqueductConnect, Subscription
from tests.core.intake.lives import run
from tests.support.intake_process import IntakeProcess, Site
from tests.support.ports import free_port
from tests.support.waiting import LONG, wait_until


def kinds(intake: IntakeProcess) -> list[str]:
    return [stall.kind for stall in intake.status().stalls]


def logged(site: Site, words: str) -> str:
    def found() -> str | None:
        return next((line for line in site.log.read_text().splitlines() if words in line), None)

    return wait_until(found, LONG, f"a line with {words}")


def test_a_listener_that_nobody_comes_to(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def come() -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            await connection.accepted()
            await asyncio.to_thread(logged, site, "has its first producer, after ")
            assert kinds(intake) == []

    with site.intake(name="east") as intake:
        assert kinds(intake) == ["no-producer"]
        line = logged(site, "no producer has connected yet to the listener of east")
        assert intake.url.removeprefix("aqueduct://") in line
        run(come())
    assert site.log.read_text().count("no producer has connected") == 1


def test_an_endpoint_that_is_not_there(tmp_path: Path) -> None:
    site, endpoint = Site(tmp_path), f"127.0.0.1:{free_port()}"
    settings = AqueductConnect(
        endpoints=(endpoint,), subscriptions=(Subscription(),), insecure=True
    )
    with site.intake(connect=settings) as intake:
        line = logged(site, "is not connected")
        assert f"[AQUEDUCT_CONNECT.REFUSED] endpoint aqueduct://{endpoint}" in line
        (stall,) = intake.status().stalls
        assert (stall.kind, str(stall) in line) == ("endpoint-down", True)
        assert stall.seconds > 1.0
