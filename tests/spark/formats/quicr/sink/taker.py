"""Whom media are posted to: takes each, and ends it when it has all of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aqueduct_core.quicr.engine import ALPN, QuicrEngine
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Fragments,
    Posted,
    QuicrEvent,
    StartPoint,
    TransactionEnded,
)
from aqueduct_core.quicr.media.reception import Reception
from aqueduct_core.transport import Driver, ListenedProtocol, PeerInfo, listen
from tests.core.intake.quicr.peers import LINK
from tests.core.quicr.ends import Objects
from tests.core.transport.ends import server_tls
from tests.support.waiting import LONG


class Taker:
    """``media``: what came, by URL; ``starts`` where they began. ``refuses``: URLs that are given
    up at once; ``silent``: nothing is accepted; ``confirms``: media are ended."""

    def __init__(self, *, datagram: bool = False) -> None:
        self.media: dict[bytes, Objects] = {}
        self.starts: dict[bytes, tuple[int, int]] = {}
        self.ended: list[EndReason] = []
        self.refuses: set[bytes] = set()
        self.silent = False
        self.confirms = True
        self.drivers: set[Driver] = set()
        self.changed = asyncio.Event()
        self._datagram = datagram

    def accept(self, peer: PeerInfo, now: float) -> Any:
        engine = QuicrEngine(client=False)
        receptions: dict[int, Reception] = {}
        urls: dict[int, bytes] = {}

        def hear(driver: Driver, events: list[QuicrEvent]) -> None:
            self.drivers.add(driver)
            for event in events:
                match event:
                    case Posted(stream, url, datagram):
                        urls[stream] = url
                        if url in self.refuses:
                            engine.cancel(stream, driver.now())
                        elif not self.silent:
                            receptions[stream] = Reception(max_bytes=1 << 26)
                            engine.accept(
                                stream, datagram=datagram and self._datagram, now=driver.now()
                            )
                    case StartPoint(stream, start):
                        self.starts[urls[stream]] = start
                        receptions[stream].start_at(start, driver.now())
                    case Fragments(stream, fragments, size):
                        receptions[stream].handle(fragments, driver.now())
                        engine.consumed(stream, size, driver.now())
                    case FinalPoint(stream, final):
                        receptions[stream].finish(final, driver.now())
                    case TransactionEnded(_, reason):
                        self.ended.append(reason)
            for stream, reception in receptions.items():
                objects = self.media.setdefault(urls[stream], {})
                for each in reception.take():
                    objects[each.position] = each.flags, each.payload or b""
                if reception.complete and self.confirms:
                    engine.confirm(stream, driver.now())
            driver.kick()
            self.changed.set()

        return engine, hear

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(LONG):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def taking(taker: Taker) -> AsyncIterator[str]:
    """Its address."""
    listener = await listen(
        "127.0.0.1", 0, {ALPN: ListenedProtocol(taker.accept, LINK)}, tls=server_tls()
    )
    try:
        yield f"127.0.0.1:{listener.address[1]}"
    finally:
        await listener.close()
