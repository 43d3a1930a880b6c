"""Whom a read dials: sends what it has on each channel that is opened there, and ends it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aqueduct_core.telehash.config import ALPN
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import ChannelOpened, TelehashEvent
from aqueduct_core.transport import Driver, LinkSettings, ListenedProtocol, listen
from aqueduct_core.transport.plain_udp import endpoints as plain_udp
from aqueduct_spark.write.worker import BackgroundLoop
from tests.core.transport.ends import server_tls


class Giver:
    """``bodies`` by type, at most a window of them. Over plain UDP it sends to whoever asks, as
    other implementations do."""

    def __init__(self, *, udp: bool) -> None:
        self.bodies: dict[str, Sequence[bytes]] = {}
        self.opened: list[str] = []
        self.udp = udp

    def accept(self, peer: object, now: float) -> tuple[TelehashEngine, Any]:
        engine = TelehashEngine(odd=False)

        def hear(driver: Driver, events: list[TelehashEvent]) -> None:
            for event in events:
                if isinstance(event, ChannelOpened):
                    self.opened.append(event.type)
                    bodies = self.bodies[event.type]
                    for place, body in enumerate(bodies):
                        last = place == len(bodies) - 1
                        engine.send(event.channel, body=body, end=last, now=driver.now())
                    driver.kick()

        return engine, hear


@contextmanager
def giving(giver: Giver) -> Iterator[str]:
    """Where it listens, in a thread of its own."""

    async def opened() -> tuple[Any, str]:
        if giver.udp:
            plain = await plain_udp.listen("127.0.0.1", 0, make_engine=giver.accept)
            return plain, f"udp://127.0.0.1:{plain.address[1]}"
        protocol = ListenedProtocol(giver.accept, LinkSettings(max_streams_uni=0))
        quic = await listen("127.0.0.1", 0, {ALPN: protocol}, tls=server_tls())
        return quic, f"telehash://127.0.0.1:{quic.address[1]}"

    with BackgroundLoop() as loop:
        listener, url = loop.run(opened())
        yield url
        loop.run(listener.close())
