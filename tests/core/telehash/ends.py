"""Two engines of Telehash joined by a link in memory, and what their applications do."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    PacketBatch,
    PacketsAcked,
    TelehashEvent,
)
from aqueduct_core.transport.in_memory.end import MemoryEnd
from aqueduct_core.transport.in_memory.link import MemoryLink


class Application:
    """What one end does with what its engine tells: takes every channel, and is done with each
    packet at once, unless ``slow``."""

    def __init__(self, engine: TelehashEngine) -> None:
        self.engine = engine
        self.events: list[TelehashEvent] = []
        self.opened: dict[int, ChannelOpened] = {}
        self.bodies: dict[int, list[bytes]] = defaultdict(list)
        self.js: dict[int, list[bytes | None]] = defaultdict(list)
        self.ends: set[int] = set()
        self.acked: dict[int, int] = {}
        self.closed: dict[int, ChannelClosed] = {}
        self.slow = False
        self.end: MemoryEnd
        self.link: MemoryLink

    def hear(self, events: list[Any]) -> None:
        self.events += events
        now = self.link.now
        self.end.kick()
        for event in events:
            match event:
                case ChannelOpened(channel, _, _):
                    assert channel not in self.opened
                    self.opened[channel] = event
                case PacketBatch():
                    self._take(event, now)
                case PacketsAcked(channel, upto):
                    assert upto > self.acked.get(channel, 0)
                    self.acked[channel] = upto
                case ChannelClosed(channel):
                    assert channel not in self.closed
                    self.closed[channel] = event

    def _take(self, batch: PacketBatch, now: float) -> None:
        channel = batch.channel
        bodies = self.bodies[channel]
        assert channel not in self.closed
        assert batch.first == len(bodies)
        bodies += [item.payload for item in batch.messages()]
        self.js[channel] += batch.js
        if batch.end:
            self.ends.add(channel)
        if not self.slow:
            self.engine.done(channel, len(bodies), now)

    def of(self, *kinds: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kinds)]


class Pair:
    """Two ends; the first has dialled, and opens odd channels."""

    def __init__(
        self,
        config: TelehashConfig | None = None,
        *,
        peer: TelehashConfig | None = None,
        **link: Any,
    ) -> None:
        self.ours = Application(TelehashEngine(odd=True, config=config))
        self.peers = Application(TelehashEngine(odd=False, config=peer or config))
        self.link = MemoryLink(
            self.ours.engine,
            self.peers.engine,
            on_client_events=self.ours.hear,
            on_server_events=self.peers.hear,
            **link,
        )
        self.ours.link = self.peers.link = self.link
        self.ours.end, self.peers.end = self.link.ends
        self.link.kick()

    @property
    def now(self) -> float:
        return self.link.now

    def open(self, bodies: list[bytes], *, reliable: bool = True, end: bool = True) -> int:
        """A channel of ours, with these packets, as many as there is room for at once."""
        engine = self.ours.engine
        last = len(bodies) - 1
        channel = engine.open(
            "_test", reliable=reliable, body=bodies[0], end=end and not last, now=self.now
        )
        self.send(channel, bodies[1:], end=end)
        return channel

    def send(self, channel: int, bodies: list[bytes], *, end: bool = False) -> None:
        engine = self.ours.engine
        for at, body in enumerate(bodies):
            if not engine.room(channel):
                self.link.kick()
                self.link.run_until(lambda: engine.room(channel) > 0)
            engine.send(channel, body=body, end=end and at == len(bodies) - 1, now=self.now)
        self.link.kick()

    def finish(self, *channels: int, limit: float = 60.0) -> None:
        self.link.kick()
        sides = (self.ours, self.peers)
        self.link.run_until(
            lambda: all(c in side.closed for c in channels for side in sides), limit
        )
