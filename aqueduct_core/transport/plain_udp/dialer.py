"""Send packets of an engine to a peer: one socket and one driver for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.transport.addresses import connected, resolve
from aqueduct_core.transport.dialled_socket import DialledSocket
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.plain_udp.link import PlainLink, PlainSettings


async def dial(
    host: str,
    port: int,
    *,
    make_engine: Callable[[float], Engine[Any]],
    on_events: OnEvents,
    settings: PlainSettings | None = None,
) -> Driver:
    """A driver for the first address of ``host``, at once: whether anybody is there, its engine
    finds out, or its link, which is lost when the network refuses the first packets.

    Raises:
        ConnectFailed.DNS: the name is not known.
        ConnectFailed.REFUSED: the address cannot be reached.
        Exception: whatever ``make_engine`` raised.
    """
    addresses = await resolve(host, port)
    if not addresses:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Check the name")
    family, address = addresses[0]
    line = DialledSocket(connected(family, address), address)
    now = asyncio.get_running_loop().time()
    driver = Driver(
        PlainLink(settings or PlainSettings(), address, now, stranger=False),
        address,
        make_engine=lambda _, ready: (make_engine(ready), on_events),
        send=line.send,
        on_turn=line.turned,
    )
    line.driver = driver
    driver.turn((), now)
    if driver.failure is not None:
        line.end()
        raise driver.failure
    return driver
