"""Relays and origins on a network in memory, with publishers and readers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.engine import QuicrEngine
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.quicr.relay.relay import Relay
from aqueduct_core.transport.in_memory.end import MemoryEnd
from aqueduct_core.transport.in_memory.link import MemoryLink
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from tests.core.quicr.ends import Application, Objects, Received, queue_of

LINK = {"stream_progress": True, "datagram_outcomes": True, "max_streams_bidi": 100}


class Station:
    """A relay with its connections, on the clock of a network.

    Args:
        upstream: the station that it dials; None: it is an origin.
        number: of the chances of its waits.
        link: of the connection to the upstream.
    """

    def __init__(
        self,
        network: MemoryNetwork,
        config: RelayConfig | None = None,
        *,
        upstream: Station | None = None,
        engine_config: QuicrConfig | None = None,
        number: int = 0,
        **link: Any,
    ) -> None:
        self.network = network
        self.relay = Relay(
            config, upstream=upstream is not None, chance=random.Random(number).random
        )
        self.reachable = True
        self.dials = 0
        self.line: MemoryLink | None = None
        """To the upstream."""
        self.connections: list[MemoryLink] = []
        self._upstream = upstream
        self._engine_config = engine_config
        self._link = link
        self._ends: dict[QuicrEngine, MemoryEnd] = {}
        network.links.append(self)

    # what a network moves

    @property
    def next_at(self) -> float | None:
        return self.relay.wake_at

    @property
    def busy(self) -> bool:
        return False

    def turn(self) -> None:
        wake = self.relay.wake_at
        if wake is not None and wake <= self.network.now:
            self.relay.tick(self.network.now)
            self._after()

    # connections

    def connect(
        self, engine: QuicrEngine, on_events: Callable[[list[Any]], None], **link: Any
    ) -> MemoryLink:
        """A client's connection."""
        server = QuicrEngine(client=False, config=self._engine_config)
        made = MemoryLink(
            engine,
            server,
            network=self.network,
            on_client_events=on_events,
            on_server_events=self._hear(server),
            **(LINK | link),
        )
        self._ends[server] = made.server
        self.connections.append(made)
        return made

    def client(self, config: QuicrConfig | None = None, **link: Any) -> Client:
        return Client(self, config, **link)

    def cut(self) -> None:
        """The connection to the upstream is gone."""
        assert self.line is not None
        self.line.lose()

    def _hear(self, engine: QuicrEngine) -> Callable[[list[Any]], None]:
        def hear(events: list[Any]) -> None:
            self.relay.handle(engine, events, self.network.now)
            self._after()

        return hear

    def _after(self) -> None:
        for engine in self.relay.take_kicks():
            self._ends[engine].kick()
        while self.relay.take_dial():
            self.dials += 1
            assert self._upstream is not None
            if not self.reachable:
                self.relay.dial_failed(self.network.now)
                continue
            engine = QuicrEngine(client=True, config=self._engine_config)
            self.relay.dialled(engine)
            self.line = self._upstream.connect(engine, self._hear(engine), **self._link)
            self._ends[engine] = self.line.client


class Client(Application):
    """A client of a station: posts, requests and subscribes."""

    def __init__(self, station: Station, config: QuicrConfig | None = None, **link: Any) -> None:
        super().__init__(QuicrEngine(client=True, config=config))
        self.link = station.connect(self.engine, self.hear, **link)
        self.end = self.link.client
        self.queues: dict[int, ObjectQueue] = {}
        self.link.kick()

    @property
    def now(self) -> float:
        return self.link.now

    def post(
        self, url: bytes, objects: Objects, *, datagram: bool = False, finished: bool = True
    ) -> int:
        queue = queue_of(objects, finished=finished, now=self.now)
        stream = self.engine.post(url, queue, datagram=datagram, now=self.now)
        self.queues[stream] = queue
        self.end.kick()
        return stream

    def append(self, stream: int, position: Position, payload: bytes, flags: int = 0) -> None:
        """One object more of what is posted."""
        self.queues[stream].append(position, payload, flags, self.now)
        self.engine.wake(stream, self.now)
        self.end.kick()

    def finish(self, stream: int) -> None:
        self.queues[stream].finish()
        self.engine.wake(stream, self.now)
        self.end.kick()

    def get(self, url: bytes, *, datagram: bool = False) -> int:
        stream = self.engine.request(url, datagram=datagram, now=self.now)
        self.end.kick()
        return stream

    def watch(self, prefix: bytes) -> int:
        stream = self.engine.subscribe(prefix, self.now)
        self.end.kick()
        return stream

    def cancel(self, stream: int) -> None:
        self.engine.cancel(stream, self.now)
        self.end.kick()

    def got(self, stream: int) -> Received:
        return self.of(stream)

    def over(self, *streams: int) -> bool:
        return all(self.of(stream).ended is not None for stream in streams)
