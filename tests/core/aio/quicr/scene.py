"""Origins, relays and clients over UDP, with bad networks between them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aqueduct_core.aio.quicr.client import QuicrClient, connect
from aqueduct_core.aio.quicr.reader import MediaReader
from aqueduct_core.aio.quicr.server import MediaServer, serve_origin, serve_relay
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.relay.config import RelayConfig
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.core.quicr.ends import Objects
from tests.support.event_loop import client_tls, server_tls
from tests.support.proxy import Impairment, Proxy

WHOLE = QuicrConfig(dropping=None)
"""Nothing is given up, however late it gets."""


@asynccontextmanager
async def client_of(
    url: str, tls: ClientTls | None = None, config: QuicrConfig | None = None
) -> AsyncIterator[QuicrClient]:
    async with connect(url, tls=tls or client_tls(), config=config or WHOLE) as client:
        yield client


class Net:
    """What is open, all closed in the end. ``impairment``: of each path between two of them.

    Usage: ``origin`` first, ``relay`` as often as there are hops; ``client`` for each client, which
    connects to the last of them.
    """

    def __init__(self, stack: AsyncExitStack, impairment: Impairment | None, seed: int) -> None:
        self.servers: list[MediaServer] = []
        self.proxies: list[Proxy] = []
        self._stack = stack
        self._impairment = impairment
        self._seed = seed

    async def origin(self, config: QuicrConfig | None = None, **keeping: Any) -> MediaServer:
        server = await self._stack.enter_async_context(
            serve_origin(
                "127.0.0.1",
                0,
                tls=server_tls(),
                config=config or WHOLE,
                keeping=RelayConfig(**keeping),
            )
        )
        self.servers.append(server)
        return server

    async def relay(
        self, *, datagram: bool, upstream: str | None = None, **keeping: Any
    ) -> MediaServer:
        """A relay of the last server, to which it talks in this mode."""
        server = await self._stack.enter_async_context(
            serve_relay(
                "127.0.0.1",
                0,
                upstream or await self.way_to(self.servers[-1]),
                tls=server_tls(),
                upstream_tls=client_tls(),
                config=WHOLE,
                keeping=RelayConfig(upstream_datagram=datagram, **keeping),
            )
        )
        self.servers.append(server)
        return server

    async def client(
        self, server: MediaServer | None = None, *, config: QuicrConfig | None = None
    ) -> QuicrClient:
        where = await self.way_to(server or self.servers[-1])
        return await self._stack.enter_async_context(client_of(where, config=config))

    async def way_to(self, server: MediaServer) -> str:
        """Where it is reached, over a path of its own."""
        if self._impairment is None:
            return server.url
        self._seed += 1
        proxy = Proxy(server.address, self._impairment, self._seed)
        self.proxies.append(proxy)
        self._stack.callback(proxy.close)
        return f"quicr://{HostPort(*await proxy.open())}"


@asynccontextmanager
async def net(impairment: Impairment | None = None, seed: int = 1) -> AsyncIterator[Net]:
    async with AsyncExitStack() as stack:
        yield Net(stack, impairment, seed)


async def publish(
    client: QuicrClient, url: str, objects: Objects, *, datagram: bool = True
) -> None:
    """Return when the next hop has them all."""
    async with client.publish(url, datagram=datagram) as publisher:
        for position, (flags, payload) in objects.items():
            new_group = position.group > publisher.next.group
            assert await publisher.send(payload, flags=flags, new_group=new_group) == position


async def read_all(reader: MediaReader) -> Objects:
    """Of a media that comes to its end; there must be no gap."""
    got: Objects = {}
    async with reader:
        async for each in reader:
            got[Position(each.group, each.object)] = each.flags, each.payload or b""
    assert reader.gaps == []
    assert reader.conflicts == []
    return got
