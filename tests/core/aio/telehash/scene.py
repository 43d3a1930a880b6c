"""Listeners and lines over both carriers, with bad networks between them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from aqueduct_core.aio.telehash.channel import ReceivedPacket, TelehashChannel
from aqueduct_core.aio.telehash.client import connect
from aqueduct_core.aio.telehash.line import TelehashLine
from aqueduct_core.aio.telehash.listener import Handler, TelehashListener, listen
from aqueduct_core.primitives.host_port import HostPort
from tests.support.event_loop import client_tls, server_tls
from tests.support.proxy import Impairment, Proxy

CARRIERS = pytest.mark.parametrize("carrier", ["telehash", "udp"])


class Net:
    """What is open, all closed in the end, in the order in which it was opened.

    ``impairment``: of the path of each line.
    """

    def __init__(
        self, stack: AsyncExitStack, carrier: str, impairment: Impairment | None, seed: int
    ) -> None:
        self.proxies: list[Proxy] = []
        self.listener: TelehashListener
        self._stack = stack
        self._carrier = carrier
        self._impairment = impairment
        self._seed = seed

    async def listen(
        self,
        handler: Handler | None = None,
        types: Collection[str] | None = None,
        **options: Any,
    ) -> TelehashListener:
        self.listener = await self._stack.enter_async_context(
            listen(
                f"{self._carrier}://127.0.0.1:0",
                handler,
                types=types,
                tls=server_tls(),
                **options,
            )
        )
        return self.listener

    async def connect(self, **options: Any) -> TelehashLine:
        url = await self.way()
        return await self._stack.enter_async_context(connect(url, tls=client_tls(), **options))

    async def way(self) -> str:
        """Where the listener is reached, over a path of its own."""
        if self._impairment is None:
            return self.listener.url
        self._seed += 1
        proxy = Proxy(self.listener.address, self._impairment, self._seed)
        self.proxies.append(proxy)
        self._stack.callback(proxy.close)
        return f"{self._carrier}://{HostPort(*await proxy.open())}"


@asynccontextmanager
async def net(
    carrier: str = "telehash", impairment: Impairment | None = None, seed: int = 1
) -> AsyncIterator[Net]:
    async with AsyncExitStack() as stack:
        yield Net(stack, carrier, impairment, seed)


async def accepted(listener: TelehashListener) -> TelehashChannel:
    """The next channel that a peer opens."""
    return await anext(aiter(listener))


async def bodies(channel: TelehashChannel) -> list[bytes]:
    """All that comes, to the end."""
    return [packet.body async for packet in channel]


def content(packet: ReceivedPacket) -> tuple[bytes, Any]:
    return packet.body, packet.js
