"""A toy client over QUIC: topics and readings to a server, until all of it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aqueduct_core.transport import Driver, LinkSettings, dial
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.waiting import LONG
from tests.toy.engine import ALPN, Settled, Stored, TopicFinished, Toy, ToyEvent

LINK = LinkSettings(max_streams_uni=1, max_streams_bidi=8, datagram_outcomes=True)


class ToyClient:
    """`Toy` with its driver. ``events``: all that came of it."""

    def __init__(self) -> None:
        self.engine = Toy(client=True)
        self.events: list[ToyEvent] = []
        self._driver: Driver | None = None
        self._more = asyncio.Event()

    def hear(self, driver: Driver, events: list[ToyEvent]) -> None:
        self.events += events
        self._more.set()

    async def send(self, topic: str, messages: list[bytes], readings: list[bytes]) -> None:
        """Return when all messages are stored, and each reading has its outcome."""
        assert self._driver is not None
        channel = self.engine.open(topic)
        for message in messages:
            self.engine.send(channel, message)
        self._driver.kick()
        async with asyncio.timeout(LONG):
            # the topic is there before its readings, which could overtake it
            await self._until(lambda: any(isinstance(e, Stored) for e in self.events))
            for reading in readings:
                self.engine.read_out(channel, reading)
            self._driver.kick()
            await self._until(
                lambda: sum(isinstance(e, Settled) for e in self.events) == len(readings)
            )
            self.engine.finish(channel)
            self._driver.kick()
            await self._until(lambda: any(isinstance(e, TopicFinished) for e in self.events))

    async def _until(self, probe: object) -> None:
        assert callable(probe)
        while not probe():
            assert self.engine.closed is None, self.engine.closed
            self._more.clear()
            await self._more.wait()


@asynccontextmanager
async def toy_client(host: str, port: int, tls: ClientTls) -> AsyncIterator[ToyClient]:
    client = ToyClient()
    client._driver = driver = await dial(
        host,
        port,
        alpn=ALPN,
        settings=LINK,
        tls=tls,
        make_engine=lambda now: client.engine,
        on_events=client.hear,
    )
    try:
        yield client
    finally:
        client.engine.shutdown(0, "done", driver.now())
        driver.kick()
        await driver.wait_closed()
