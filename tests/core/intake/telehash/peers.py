"""Peers of an intake process over UDP sockets: such as dial it, and such as it dials."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aqueduct_core.telehash.config import ALPN, TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    LineReady,
    PacketsAcked,
    TelehashEvent,
)
from aqueduct_core.transport import dialer, listener
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.plain_udp import endpoints
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.event_loop import server_tls
from tests.support.waiting import LONG

LINK = LinkSettings(max_streams_uni=0, max_streams_bidi=0, idle_timeout=LONG)


class Peer:
    """One line. ``acked``: packets of each channel that are; ``closed``: how each ended."""

    def __init__(self, *, odd: bool, **config: Any) -> None:
        self.engine = TelehashEngine(odd=odd, config=TelehashConfig(**config))
        self.driver: Driver
        self.opened: dict[int, ChannelOpened] = {}
        self.acked: dict[int, int] = {}
        self.closed: dict[int, ChannelClosed] = {}
        self.ready = False
        self._changed = asyncio.Event()

    def hear(self, driver: Driver, events: list[TelehashEvent]) -> None:
        self.driver = driver
        for event in events:
            match event:
                case LineReady():
                    self.ready = True
                case ChannelOpened(channel, _, _):
                    self.opened[channel] = event
                case PacketsAcked(channel, upto):
                    self.acked[channel] = upto
                case ChannelClosed(channel):
                    self.closed[channel] = event
        self._changed.set()

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(LONG):
            while not condition():
                if self.engine.closed is not None:
                    raise ConnectionError(str(self.engine.closed))
                self._changed.clear()
                await self._changed.wait()

    async def open(
        self,
        bodies: Sequence[bytes],
        kind: str = "_a",
        *,
        js: Sequence[dict[str, Any] | None] | None = None,
        end: bool = True,
    ) -> int:
        """A channel with these packets; returns when the last one was sent."""
        js = js or [None] * len(bodies)
        channel = self.engine.open(
            kind,
            reliable=True,
            body=bodies[0],
            js=js[0],
            end=end and len(bodies) == 1,
            now=self.driver.now(),
        )
        await self.send(channel, bodies[1:], js=js[1:], end=end)
        return channel

    async def send(
        self,
        channel: int,
        bodies: Sequence[bytes],
        *,
        js: Sequence[dict[str, Any] | None] | None = None,
        end: bool = True,
    ) -> None:
        js = js or [None] * len(bodies)
        for at, (body, each) in enumerate(zip(bodies, js, strict=True)):
            self.driver.kick()
            await self.until(lambda: self.engine.room(channel))
            last = end and at == len(bodies) - 1
            self.engine.send(channel, body=body, js=each, end=last, now=self.driver.now())
        self.driver.kick()

    async def delivered(self, channel: int, count: int) -> None:
        await self.until(lambda: self.acked.get(channel, 0) >= count)


@asynccontextmanager
async def dialling(
    where: str, tls: ClientTls | None, *, odd: bool = True, **config: Any
) -> AsyncIterator[Peer]:
    """A peer that dials an intake; ``tls`` None: over plain UDP."""
    peer = Peer(odd=odd, **config)
    host, port = where.rsplit(":", 1)
    if tls is None:
        peer.driver = await endpoints.dial(
            host, int(port), make_engine=lambda _: peer.engine, on_events=peer.hear
        )
    else:
        peer.driver = await dialer.dial(
            host,
            int(port),
            alpn=ALPN,
            settings=LINK,
            tls=tls,
            make_engine=lambda _: peer.engine,
            on_events=peer.hear,
        )
    try:
        yield peer
    finally:
        peer.engine.shutdown(0, "", peer.driver.now())
        peer.driver.kick()
        await peer.driver.wait_closed()


class Station:
    """Listens for intakes; ``peers``: a line each, in the order in which they came."""

    def __init__(self, *, plain: bool, odd: bool) -> None:
        self.plain = plain
        self.odd = odd
        self.peers: list[Peer] = []
        self._changed = asyncio.Event()

    def accept(self, _: Any, now: float) -> tuple[TelehashEngine, OnEvents]:
        peer = Peer(odd=self.odd, admit_at_once=not self.plain)
        self.peers.append(peer)
        self._changed.set()
        return peer.engine, peer.hear

    async def line(self, number: int) -> Peer:
        async with asyncio.timeout(LONG):
            while len(self.peers) <= number:
                self._changed.clear()
                await self._changed.wait()
        return self.peers[number]


@asynccontextmanager
async def listening(*, plain: bool, odd: bool = False) -> AsyncIterator[tuple[Station, str]]:
    station = Station(plain=plain, odd=odd)
    server: Any
    if plain:
        server = await endpoints.listen("127.0.0.1", 0, make_engine=station.accept)
    else:
        protocols = {ALPN: listener.ListenedProtocol(station.accept, LINK)}
        server = await listener.listen("127.0.0.1", 0, protocols, tls=server_tls())
    try:
        yield station, f"127.0.0.1:{server.address[1]}"
    finally:
        await server.close()
