"""A dialled and an accepted end on loopback, ended together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aqueduct_core.transport import (
    ClientTls,
    Driver,
    LinkSettings,
    ListenedProtocol,
    Listener,
    ListenLimits,
    PeerInfo,
    ServerTls,
    dial,
    listen,
)
from aqueduct_core.transport.driver import OnEvents
from tests.core.transport.probe import Probe
from tests.support.event_loop import client_tls, server_tls

ALPN = "test"


def counted(settings: LinkSettings | None = None) -> ListenedProtocol:
    """A protocol whose server ends are probes that nobody asks."""
    return ListenedProtocol(
        lambda peer, now: (Probe(client=False), lambda driver, events: None),
        settings or LinkSettings(),
    )


@dataclass
class Server:
    listener: Listener
    probes: list[Probe] = field(default_factory=list)
    drivers: list[Driver] = field(default_factory=list)

    @property
    def port(self) -> int:
        return self.listener.address[1]


@asynccontextmanager
async def serving(
    host: str = "127.0.0.1",
    *,
    alpn: str = ALPN,
    settings: LinkSettings | None = None,
    make: Callable[[], Probe] = lambda: Probe(client=False),
    limits: ListenLimits | None = None,
    tls: ServerTls | None = None,
    reset_key: bytes | None = None,
) -> AsyncIterator[Server]:
    def welcome(peer: PeerInfo, now: float) -> tuple[Probe, Callable[[Driver, list[object]], None]]:
        probe = make()
        server.probes.append(probe)
        return probe, lambda driver, events: None

    listener = await listen(
        host,
        0,
        {alpn: ListenedProtocol(welcome, settings or LinkSettings())},
        tls=tls or server_tls(),
        limits=limits,
        reset_key=reset_key,
    )
    server = Server(listener)
    try:
        yield server
    finally:
        await listener.close()


async def dialled(
    server: Server,
    probe: Probe | None = None,
    *,
    host: str = "127.0.0.1",
    alpn: str = ALPN,
    settings: LinkSettings | None = None,
    tls: ClientTls | None = None,
    on_events: OnEvents = lambda driver, events: None,
    moderation: float = 0.0,
) -> tuple[Driver, Probe]:
    mine = probe or Probe(client=True)
    driver = await dial(
        host,
        server.port,
        alpn=alpn,
        settings=settings or LinkSettings(),
        tls=tls or client_tls(),
        make_engine=lambda now: mine,
        on_events=on_events,
        moderation=moderation,
    )
    return driver, mine


async def ended(*drivers: Driver) -> None:
    """Close drivers and wait until nothing of them is left."""
    for driver in drivers:
        driver.close()
    for driver in drivers:
        await driver.wait_closed()
