"""A toy client over QUIC: topics and readings to a server, until all of it is stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from aqueduct_core.transport import Driver, LinkSettings, dial
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.waiting import LONG
from tests.toy.engine import ALPN, Settled, Stored, TopicFinished, Toy, ToyEvent

LINK = LinkSettings(max_streams_uni=1, max_streams_bidi=8, datagram_outcomes=True)


class ToyClient:
    """One topic of `Toy` with its driver. ``events``: all that came of it."""

    def __init__(self, topic: str) -> None:
        self.events: list[ToyEvent] = []
        self._engine = Toy(client=True)
        self._topic = self._engine.open(topic)
        self._driver: Driver | None = None
        self._more = asyncio.Event()

    async def dial(self, host: str, port: int, tls: ClientTls) -> None:
        self._driver = await dial(
            host,
            port,
            alpn=ALPN,
            settings=LINK,
            tls=tls,
            make_engine=lambda now: self._engine,
            on_events=self._hear,
        )

    @property
    def acked_readings(self) -> int:
        return sum(isinstance(event, Settled) and event.acked for event in self.events)

    def send(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            self._engine.send(self._topic, message)
        self._kick()

    async def read_out(self, readings: list[bytes]) -> None:
        """Return when each has its outcome. A message must have been sent before, since a reading
        could overtake its topic."""
        await self._until(lambda: any(isinstance(event, Stored) for event in self.events))
        for reading in readings:
            self._engine.read_out(self._topic, reading)
        self._kick()
        settled = len(readings)
        await self._until(lambda: sum(isinstance(e, Settled) for e in self.events) >= settled)

    async def finish(self) -> None:
        """Return when all messages are stored."""
        self._engine.finish(self._topic)
        self._kick()
        await self._until(lambda: any(isinstance(e, TopicFinished) for e in self.events))

    async def close(self) -> None:
        if self._driver is not None:
            self._engine.shutdown(0, "done", self._driver.now())
            self._kick()
            await self._driver.wait_closed()

    def _hear(self, driver: Driver, events: list[ToyEvent]) -> None:
        self.events += events
        self._more.set()

    def _kick(self) -> None:
        assert self._driver is not None
        self._driver.kick()

    async def _until(self, probe: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONG):
            while not probe():
                if self._engine.closed is not None:
                    raise ConnectionError(str(self._engine.closed))
                self._more.clear()
                await self._more.wait()


@asynccontextmanager
async def toy_client(topic: str, host: str, port: int, tls: ClientTls) -> AsyncIterator[ToyClient]:
    client = ToyClient(topic)
    await client.dial(host, port, tls)
    try:
        yield client
    finally:
        await client.close()
