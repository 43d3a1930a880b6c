"""Servers and clients in one process, over links in memory that do what a bad network does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.message import HeadersLike, as_headers
from aqueduct_core.aio.serve import Authorize, Server
from aqueduct_core.aqueduct.config import DEFAULT_CONFIG, Config
from aqueduct_core.engine.actions import CloseLink
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import AqueductError, ConnectFailed
from aqueduct_core.transport.awaiting import Opening, Signal
from aqueduct_core.transport.driver import OnEvents
from aqueduct_core.transport.in_memory.end import MemoryEnd
from aqueduct_core.transport.in_memory.link import MemoryLink
from aqueduct_core.transport.in_memory.network import MemoryNetwork
from aqueduct_core.transport.link import LinkCounts
from aqueduct_core.transport.listener import PeerInfo

HOST = "memory.invalid"
"""Of all addresses here; no resolver knows it, so nothing leaves the process by mistake."""


class Network:
    """A network in memory: no socket, no TLS, and chances that follow from ``seed`` alone.

    Reliable messages come late over it, never wrong; unreliable ones may be lost and overtaken, as
    over QUIC. Nothing comes twice: QUIC drops what the network has doubled. In virtual time
    (``run_virtually``) a run with the same seed is the same run. Belongs to the event loop in which
    it is used first, and ends with it.

    Args:
        seed: of all chances.
        delay: seconds from one end to the other.
        jitter: up to so many seconds more, drawn for each datagram and each piece of a stream, by
            which datagrams and streams overtake each other.
        loss: probability for each datagram, that is for each unreliable message.
        rate: bytes per second of each connection in each direction; None: as fast as you like.
        queue: with a rate, bytes that wait in front of it; what comes on top is dropped, and sent
            again if it is reliable.

    All of them are plain attributes, which hold for connections that are made from then on.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        delay: float = 0.0,
        jitter: float = 0.0,
        loss: float = 0.0,
        rate: float | None = None,
        queue: int = 64 * 1024,
    ) -> None:
        self.seed = seed
        self.delay = delay
        self.jitter = jitter
        self.loss = loss
        self.rate = rate
        self.queue = queue
        self.reachable = True
        """False: who dials gets no answer, as with a cable that is pulled."""
        self._servers: dict[int, tuple[Server, _Listener]] = {}
        self._links = MemoryNetwork()
        self._drivers: list[tuple[_Driver, _Driver]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._ports = 0

    def serve(
        self,
        *,
        headers: HeadersLike = (),
        authorize: Authorize | None = None,
        config: Config | None = None,
    ) -> Opening[Server]:
        """Listen on an address of this network, ``server.url``. As ``aqueduct.serve`` otherwise."""
        pairs = as_headers(headers)

        async def start() -> Server:
            server = Server(pairs, authorize, config or DEFAULT_CONFIG)
            self._ports += 1
            listener = _Listener(self._ports, lambda port: self._servers.pop(port, None))
            server.listen_on(listener)
            self._servers[self._ports] = server, listener
            return server

        return Opening(start)

    def connect(self, url: str, **options: Any) -> Opening[ClientConnection]:
        """Dial a server of this network. ``options`` are those of ``aqueduct.connect``; what they
        say of TLS and QUIC has no meaning here. Raises: ConnectFailed as it does."""
        return connect(url, dialer=self.dial, **options)

    async def dial(
        self,
        host: str,
        port: int,
        *,
        make_engine: Callable[[float], Engine[Any]],
        on_events: OnEvents,
        **others: Any,
    ) -> _Driver:
        """What ``connect`` and ``Producer`` take as ``dialer``: ``Producer(server.url,
        producer="sensor-7", dialer=network.dial)``. Raises: ConnectFailed."""
        await asyncio.sleep(2 * self.delay)
        found = self._servers.get(port) if self.reachable and host == HOST else None
        if found is None or found[1].refusing:
            raise ConnectFailed(
                "NO_REPLY",
                f"no reply from {host}:{port}, an address in memory",
                "Dial the url of a server that this network serves, while it is reachable",
            )
        now = self._links.now = asyncio.get_running_loop().time()
        self._ports += 1
        client = _Driver(self, (HOST, port))
        served = _Driver(self, (HOST, self._ports))
        server_engine, on_server_events = found[0].welcome(PeerInfo(served.peer), now)
        link = MemoryLink(
            make_engine(now),
            server_engine,
            seed=self.seed + self._ports,
            network=self._links,
            delay=self.delay,
            jitter=self.jitter,
            loss=self.loss,
            rate=self.rate,
            queue=self.queue,
            on_client_events=lambda events: on_events(client, events),  # type: ignore[arg-type]
            on_server_events=lambda events: on_server_events(served, events),
        )
        client.join(link, link.client)
        served.join(link, link.server)
        self._drivers.append((client, served))
        self.kick()
        return client

    def cut(self) -> None:
        """Lose every connection, as when both ends have heard nothing for long: what is on the way
        is lost. New ones can be made; set ``reachable`` to False before, and they cannot."""
        for client, _ in self._drivers:
            client.link.lose()
        self.kick()

    def kick(self) -> None:
        """Have what was asked for happen soon."""
        self._at(asyncio.get_running_loop().time())

    def _at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(when, self._turn)

    def _turn(self) -> None:
        self._timer = None
        self._links.now = asyncio.get_running_loop().time()
        self._links.kick()
        for pair in list(self._drivers):
            for driver in pair:
                driver.turned()
            if all(driver.over for driver in pair):
                self._drivers.remove(pair)
                self._links.links.remove(pair[0].link)
        due = self._links.next_at
        if due is not None:
            self._at(due)


class _Listener:
    """Where a ``Server`` gets its connections from."""

    fingerprint = ""

    def __init__(self, port: int, closed: Callable[[int], object]) -> None:
        self.address = HOST, port
        self.refusing = False
        self._closed = closed

    def refuse(self) -> None:
        self.refusing = True

    async def close(self) -> None:
        self._closed(self.address[1])


class _Driver:
    """One end of a connection, as those above it see it."""

    ready = True
    early = False
    early_accepted = None
    peer_certificate_fingerprint = None

    def __init__(self, network: Network, peer: tuple[str, int]) -> None:
        self.peer = peer
        self.turns = 0
        self.link: MemoryLink
        self._end: MemoryEnd
        self._network = network
        self._changed = Signal()

    def join(self, link: MemoryLink, end: MemoryEnd) -> None:
        self.link = link
        self._end = end

    @property
    def over(self) -> bool:
        return self._end.lost is not None and not self._end.at_once

    @property
    def unsent(self) -> int:
        return 0 if self.over else self._end.unsent

    @property
    def statistics(self) -> LinkCounts:
        mine, other = self._end.counts, self._end.peer.counts
        return LinkCounts(other.datagrams, mine.datagrams, other.stream_bytes, mine.stream_bytes)

    def kick(self, *, urgent: bool = False) -> None:
        self._network.kick()

    def kick_later(self) -> None:
        self._network.kick()

    def probe(self) -> bool:
        return False  # both ends learn at once that a link is lost

    def turned(self) -> None:
        """The link had a turn."""
        self.turns += 1
        self._changed.fire()

    def close(self, code: int = 0, reason: str = "") -> None:
        if self._end.lost is None:
            self.link.close(self._end, CloseLink(code, reason))
            self._network.kick()

    def abandon(self, reason: str = "abandoned") -> None:
        self.link.lose(reason, origin=CloseOrigin.ABANDONED)
        self._network.kick()

    def why_not_ready(self) -> AqueductError:
        raise RuntimeError("a link in memory is ready from its first moment")

    async def writable(self, high: int) -> None:
        await asyncio.sleep(0)  # what was given just now is not in the link's account yet
        self._network.kick()
        await self._changed.until(lambda: self.over or self.unsent < high)

    async def wait_closed(self) -> None:
        await self._changed.until(lambda: self.over)
