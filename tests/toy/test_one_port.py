"""The toy and Aqueduct on the same port, each with its own engine, streams and datagrams."""

from __future__ import annotations

import asyncio

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
from tests.core.transport.ends import client_tls, server_tls
from tests.support.waiting import LONG
from tests.toy.engine import ALPN, Settled, Stored, TopicFinished, Toy, ToyEvent

TOY_LINK = LinkSettings(max_streams_uni=1, max_streams_bidi=8, datagram_outcomes=True)


def test_two_protocols_share_a_port() -> None:
    async def main() -> None:
        heard: list[ToyEvent] = []
        told: list[ToyEvent] = []
        more = asyncio.Event()

        def accept_toy(peer: PeerInfo, now: float) -> tuple[Toy, object]:
            engine = Toy(client=False)

            def store(driver: Driver, events: list[ToyEvent]) -> None:
                heard.extend(events)
                for event in events:
                    if isinstance(event, MessageBatch):
                        stop = event.first + event.count
                        engine.stored(
                            event.channel,
                            event.first,
                            stop,
                            reliable=event.reliable,
                            now=driver.now(),
                        )
                        engine.consumed(event.channel, event.size, driver.now())
                    elif isinstance(event, TopicFinished):
                        engine.confirm(event.channel, driver.now())
                driver.kick()

            return engine, store

        def accept_aqueduct(peer: PeerInfo, now: float) -> tuple[AqueductEngine, object]:
            engine = AqueductEngine(Side.SERVER, (), Config(auto_accept=True), now)
            return engine, lambda driver, events: None

        listener = await listen(
            "127.0.0.1",
            0,
            {
                ALPN: ListenedProtocol(accept_toy, TOY_LINK),  # type: ignore[arg-type]
                "aqueduct": ListenedProtocol(accept_aqueduct),  # type: ignore[arg-type]
            },
            tls=server_tls(),
        )
        port = listener.address[1]
        toy = Toy(client=True)

        def hear(driver: Driver, events: list[ToyEvent]) -> None:
            told.extend(events)
            more.set()

        toy_driver = await dial(
            "127.0.0.1",
            port,
            alpn=ALPN,
            settings=TOY_LINK,
            tls=client_tls(),
            make_engine=lambda now: toy,
            on_events=hear,
        )
        ready = asyncio.Event()
        aqueduct_driver = await dial(
            "127.0.0.1",
            port,
            alpn="aqueduct",
            settings=LinkSettings(),
            tls=client_tls(),
            make_engine=lambda now: AqueductEngine(Side.CLIENT, (), Config(), now),
            on_events=lambda driver, events: ready.set(),
        )
        topic = toy.open("weather")
        for n in range(1_000):
            toy.send(topic, b"%d" % n)
        toy_driver.kick()
        for n in range(50):
            toy.read_out(topic, b"r%d" % n)
        toy.finish(topic)
        toy_driver.kick()
        async with asyncio.timeout(LONG):
            while not (
                any(isinstance(event, TopicFinished) for event in told)
                and sum(isinstance(event, Settled) for event in told) == 50
            ):
                more.clear()
                await more.wait()
            await ready.wait()
        assert [event for event in told if isinstance(event, Stored)][-1] == Stored(topic, 1_000)
        stored = [
            item.payload
            for batch in heard
            if isinstance(batch, MessageBatch) and batch.reliable
            for item in batch.messages()
        ]
        assert stored == [b"%d" % n for n in range(1_000)]
        assert aqueduct_driver.engine.peer_headers == ()
        assert aqueduct_driver.link.alpn == "aqueduct"
        for driver in (toy_driver, aqueduct_driver):
            driver.engine.shutdown(0, "done", driver.now())
            driver.kick()
            await driver.wait_closed()
        await listener.close()

    asyncio.run(main())
