"""The toy and Aqueduct on the same port, each with its own engine, streams and datagrams."""

from __future__ import annotations

import asyncio
from typing import Any

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.transport import (
    Driver,
    LinkSettings,
    ListenedProtocol,
    PeerInfo,
    dial,
    listen,
)
from tests.support.event_loop import client_tls, server_tls
from tests.support.waiting import LONG
from tests.toy.client import LINK, toy_client
from tests.toy.engine import ALPN, Settled, Stored, TopicFinished, Toy, ToyEvent

MESSAGES = [b"%d" % n for n in range(1_000)]
READINGS = [b"r%d" % n for n in range(50)]


class ToyServer:
    """Stores at once what comes on the connections of the toy."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []

    def accept(self, peer: PeerInfo, now: float) -> tuple[Any, Any]:
        engine = Toy(client=False)

        def store(driver: Driver, events: list[ToyEvent]) -> None:
            for event in events:
                if isinstance(event, MessageBatch):
                    if event.reliable:
                        self.stored += [message.payload for message in event.messages()]
                    stop, now = event.first + event.count, driver.now()
                    engine.stored(
                        event.channel, event.first, stop, reliable=event.reliable, now=now
                    )
                    engine.consumed(event.channel, event.size, now)
                elif isinstance(event, TopicFinished):
                    engine.confirm(event.channel, driver.now())
            driver.kick()

        return engine, store


def accept_aqueduct(peer: PeerInfo, now: float) -> tuple[Any, Any]:
    engine = AqueductEngine(Side.SERVER, (), Config(auto_accept=True), now)
    return engine, lambda driver, events: None


def test_two_protocols_share_a_port() -> None:
    async def main() -> None:
        server, ready = ToyServer(), asyncio.Event()
        protocols = {
            ALPN: ListenedProtocol(server.accept, LINK),
            "aqueduct": ListenedProtocol(accept_aqueduct),
        }
        listener = await listen("127.0.0.1", 0, protocols, tls=server_tls())
        host, port = listener.address[:2]
        async with toy_client("weather", host, port, client_tls()) as toy:
            aqueduct = await dial(
                host,
                port,
                alpn="aqueduct",
                settings=LinkSettings(),
                tls=client_tls(),
                make_engine=lambda now: AqueductEngine(Side.CLIENT, (), Config(), now),
                on_events=lambda driver, events: ready.set(),
            )
            toy.send(MESSAGES)
            await toy.read_out(READINGS)
            await toy.finish()
            async with asyncio.timeout(LONG):
                await ready.wait()
            stored = [event for event in toy.events if isinstance(event, Stored)]
            assert stored[-1].stop == len(MESSAGES)
            assert sum(isinstance(event, Settled) for event in toy.events) == len(READINGS)
            assert (aqueduct.engine.peer_headers, aqueduct.link.alpn) == ((), "aqueduct")
            aqueduct.engine.shutdown(0, "done", aqueduct.now())
            aqueduct.kick()
            await aqueduct.wait_closed()
        await listener.close()
        assert server.stored == MESSAGES

    asyncio.run(main())
