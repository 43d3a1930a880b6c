"""A connection that is over leaves nothing for the garbage collector to find."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from aqueduct_core.transport import Driver, LinkSettings
from tests.core.transport.ends import Server, dialled, ended, serving
from tests.support.event_loop import eventually
from tests.support.virtual_loop import run_virtually

QUICK = LinkSettings(idle_timeout=0.2, handshake_timeout=0.5)


@pytest.fixture(autouse=True)
def _uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def parts(driver: Driver) -> dict[str, weakref.ref[object]]:
    objects = {"driver": driver, "link": driver.link, "quic": driver.link._quic}  # type: ignore[attr-defined]
    return {name: weakref.ref(each) for name, each in objects.items()}


async def a_life(server: Server, *, by_server: bool) -> dict[str, weakref.ref[object]]:
    driver, probe = await dialled(server)
    probe.write(probe.open(), bytes(100_000), end=True)
    driver.kick()
    await eventually(lambda: bool(server.probes) and bool(server.probes[0].ended))
    (there,) = server.listener.drivers
    found = {f"client {k}": v for k, v in parts(driver).items()}
    found |= {f"server {k}": v for k, v in parts(there).items()}
    await ended(*((there, driver) if by_server else (driver, there)))
    return found


@pytest.mark.parametrize("by_server", [False, True])
def test_after_its_end_nothing_of_a_connection_is_left(by_server: bool) -> None:
    async def main() -> None:
        async with serving() as server:
            found = await a_life(server, by_server=by_server)
            server.probes.clear()
            await eventually(lambda: not server.listener.drivers)
            await asyncio.sleep(0)  # the loop holds what it ran last
            left = [name for name, part in found.items() if part() is not None]
            assert not left

    run_virtually(main())


def test_what_it_knew_of_its_end_is_still_there() -> None:
    async def main() -> None:
        async with serving() as server:
            driver, _ = await dialled(server)
            await ended(driver)
            assert driver.closed
            assert driver.link.closed
            assert driver.lost is not None
            assert driver.unsent == 0
            assert driver.link.timer is None
            assert driver.link.round_trip is None
            assert driver.peer_certificate_fingerprint == server.listener.fingerprint
            assert driver.statistics.datagrams_received > 0
            assert "closed" in repr(driver)
            driver.close()
            driver.abandon()
            driver.kick()
            await driver.writable()

    run_virtually(main())
