"""Whom the sink sends to: a real engine behind a real socket, that processes packets, or does not,
as it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aqueduct_core.telehash.config import ALPN, TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    PacketBatch,
    TelehashEvent,
)
from aqueduct_core.transport import Driver, LinkSettings, ListenedProtocol, PeerInfo, listen
from aqueduct_core.transport.plain_udp import endpoints as plain_udp
from aqueduct_core.transport.plain_udp.link import PlainSettings
from tests.core.transport.ends import server_tls
from tests.support.waiting import LONG


@dataclass
class TakenChannel:
    """``packets`` as (body, its JSON), in order; ``end`` how it ended, None while it has not."""

    type: str
    line: int
    number: int
    driver: Driver
    packets: list[tuple[bytes, Any]] = field(default_factory=list)
    ended: bool = False
    closed: ChannelClosed | None = None

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _ in self.packets]

    def process(self, upto: int | None = None) -> None:
        """Packets below ``upto`` (None: all) are done with."""
        stop = len(self.packets) if upto is None else upto
        self.driver.engine.done(self.number, stop, self.driver.now())
        self.driver.kick()

    def fail(self, err: str) -> None:
        self.driver.engine.fail(self.number, err, self.driver.now())
        self.driver.kick()

    def say(self, body: bytes) -> None:
        """Send something back."""
        self.driver.engine.send(self.number, body=body, now=self.driver.now())
        self.driver.kick()


class Taker:
    """``channels`` in the order in which they were opened, over all lines. ``refuses``: types that
    are ended at once; ``processes``: how many packets of a channel, None for all."""

    def __init__(self, *, udp: bool = False) -> None:
        self.udp = udp
        self.channels: list[TakenChannel] = []
        self.lines: list[Driver] = []
        self.refuses: set[str] = set()
        self.processes: int | None = None
        self.on_packets: Callable[[TakenChannel], None] = lambda channel: None
        self.url = ""
        self._changed = asyncio.Event()

    def of(self, type: str) -> list[TakenChannel]:
        return [each for each in self.channels if each.type == type]

    def rows(self, type: str) -> list[bytes]:
        return [body for each in self.of(type) for body in each.bodies]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(LONG):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def end_lines(self) -> None:
        for line in self.lines:
            line.close(0, "go away")

    def accept(self, peer: object, now: float) -> tuple[TelehashEngine, Any]:
        engine = TelehashEngine(odd=False, config=TelehashConfig(admit_at_once=not self.udp))
        open: dict[int, TakenChannel] = {}

        def hear(driver: Driver, events: list[TelehashEvent]) -> None:
            if driver not in self.lines:
                self.lines.append(driver)
            for event in events:
                match event:
                    case ChannelOpened(number, type, _):
                        if type in self.refuses:
                            engine.fail(number, f"no {type} here", driver.now())
                            driver.kick()
                            continue
                        line = self.lines.index(driver)
                        open[number] = TakenChannel(type, line, number, driver)
                        self.channels.append(open[number])
                    case PacketBatch() if event.channel in open:
                        self._take(open[event.channel], event)
                    case ChannelClosed(number) if number in open:
                        open[number].closed = event
            self._changed.set()

        return engine, hear

    def _take(self, channel: TakenChannel, batch: PacketBatch) -> None:
        for item, js in zip(batch.messages(), batch.js, strict=True):
            channel.packets.append((item.payload, None if js is None else json.loads(js)))
        channel.ended |= batch.end
        most = self.processes
        if most is None or most > 0:
            upto = len(channel.packets)
            channel.process(upto if most is None else min(most, upto))
        self.on_packets(channel)


@asynccontextmanager
async def taking(taker: Taker, port: int = 0) -> AsyncIterator[Taker]:
    """It listens, and its ``url`` is where."""
    if taker.udp:
        plain = await plain_udp.listen(
            "127.0.0.1", port, make_engine=taker.accept, settings=PlainSettings()
        )
        taker.url = f"udp://127.0.0.1:{plain.address[1]}"
        try:
            yield taker
        finally:
            await plain.close()
        return

    def accept(peer: PeerInfo, now: float) -> tuple[TelehashEngine, Any]:
        return taker.accept(peer, now)

    protocol = ListenedProtocol(accept, LinkSettings(max_streams_uni=0))
    quic = await listen("127.0.0.1", port, {ALPN: protocol}, tls=server_tls())
    taker.url = f"telehash://127.0.0.1:{quic.address[1]}"
    try:
        yield taker
    finally:
        await quic.close()
