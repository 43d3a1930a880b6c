"""Whom an intake of QUICR meets: an origin that it dials, and publishers that dial it; both are
engines over real UDP, without a relay's cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import ALPN, QuicrEngine
from aqueduct_core.quicr.events import QuicrEvent, Ready, Requested, Subscribed, TransactionEnded
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.transport import Driver, LinkSettings, ListenedProtocol, PeerInfo, dial, listen
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.quicr.ends import Objects, queue_of
from tests.core.transport.ends import server_tls
from tests.support.waiting import LONG

LINK = LinkSettings(
    max_streams_uni=0, max_streams_bidi=100, datagram_outcomes=True, stream_progress=True
)
KEEP_ALL = QuicrConfig(dropping=None)


class ScriptedOrigin:
    """Serves media that are there, to each who asks from their first object on; what is not there
    is waited for. ``begun``: the first object that is left of a media. ``ended``: how transactions
    did; ``asked``: the URLs of requests."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []
        self.ended: list[TransactionEnded] = []
        self.connections: list[Driver] = []
        self._media: dict[bytes, tuple[Objects, bool]] = {}
        self._open: list[tuple[Driver, int, bytes, ObjectQueue]] = []
        self._waiting: list[tuple[Driver, int, bytes]] = []
        self._prefixes: list[tuple[Driver, int, bytes]] = []
        self.changed = asyncio.Event()

    def publish(self, url: bytes, objects: Objects, *, finished: bool = True) -> None:
        """What there is of a media now: readers that come get this; those that are there what is
        new. Objects that are not there any more are for nobody who comes later."""
        if url in self._media and min(objects) > min(self._media[url][0]):
            self._open = [each for each in self._open if each[2] != url]
        self._media[url] = objects, finished
        for driver, stream, asked, queue in self._open:
            if asked == url:
                for position, (flags, payload) in objects.items():
                    if position >= queue.next:
                        queue.append(position, payload, flags, driver.now())
                if finished:
                    queue.finish()
                driver.engine.wake(stream, driver.now())
                driver.kick()
        waiting, self._waiting = self._waiting, []
        for driver, stream, asked in waiting:
            self._serve(driver, stream, asked)
        for driver, stream, prefix in self._prefixes:
            if url.startswith(prefix):
                driver.engine.notify(stream, url, driver.now())
                driver.kick()

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(LONG):
            while not condition():
                self.changed.clear()
                await self.changed.wait()

    def accept(self, peer: PeerInfo, now: float) -> Any:
        return QuicrEngine(client=False, config=KEEP_ALL), self._hear

    def _hear(self, driver: Driver, events: list[QuicrEvent]) -> None:
        if driver not in self.connections:
            self.connections.append(driver)
        for event in events:
            match event:
                case Requested(stream, url, _):
                    self.asked.append(url)
                    self._serve(driver, stream, url)
                case Subscribed(stream, prefix):
                    self._prefixes.append((driver, stream, prefix))
                    for url in self._media:
                        if url.startswith(prefix):
                            driver.engine.notify(stream, url, driver.now())
                case TransactionEnded():
                    self.ended.append(event)
        driver.kick()
        self.changed.set()

    def _serve(self, driver: Driver, stream: int, url: bytes) -> None:
        if url not in self._media:
            self._waiting.append((driver, stream, url))
            return
        objects, finished = self._media[url]
        queue = queue_of(objects, finished=finished, now=driver.now())
        self._open.append((driver, stream, url, queue))
        driver.engine.serve(stream, queue, driver.now())
        driver.kick()


@asynccontextmanager
async def serving(origin: ScriptedOrigin, port: int = 0) -> AsyncIterator[str]:
    listener = await listen(
        "127.0.0.1", port, {ALPN: ListenedProtocol(origin.accept, LINK)}, tls=server_tls()
    )
    try:
        yield f"127.0.0.1:{listener.address[1]}"
    finally:
        await listener.close()


class Publisher:
    """Posts media. ``ended``: how each did, by its URL."""

    def __init__(self) -> None:
        self.engine = QuicrEngine(client=True, config=KEEP_ALL)
        self.driver: Driver
        self.ended: dict[bytes, TransactionEnded] = {}
        self.queues: dict[bytes, ObjectQueue] = {}
        self._urls: dict[int, bytes] = {}
        self._more = asyncio.Event()
        self.ready = False

    def post(
        self, url: bytes, objects: Objects, *, datagram: bool = False, finished: bool = True
    ) -> None:
        queue = queue_of(objects, finished=finished, now=self.driver.now())
        stream = self.engine.post(url, queue, datagram=datagram, now=self.driver.now())
        self._urls[stream] = url
        self.queues[url] = queue
        self.driver.kick()

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(LONG):
            while not condition():
                if self.engine.closed is not None:
                    raise ConnectionError(str(self.engine.closed))
                self._more.clear()
                await self._more.wait()

    def hear(self, driver: Driver, events: list[QuicrEvent]) -> None:
        for event in events:
            match event:
                case Ready():
                    self.ready = True
                case TransactionEnded(stream) if stream in self._urls:
                    self.ended[self._urls[stream]] = event
        self._more.set()


@asynccontextmanager
async def publishing(where: str, tls: ClientTls) -> AsyncIterator[Publisher]:
    publisher = Publisher()
    host, port = where.rsplit(":", 1)
    publisher.driver = await dial(
        host,
        int(port),
        alpn=ALPN,
        settings=LINK,
        tls=tls,
        make_engine=lambda now: publisher.engine,
        on_events=publisher.hear,
    )
    try:
        yield publisher
    finally:
        publisher.engine.shutdown(0, "", publisher.driver.now())
        publisher.driver.kick()
        await publisher.driver.wait_closed()
