"""Listen for packets of engines, on one socket for many peers, and dial with a socket for each."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, TypeAlias

from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.transport.addresses import bound, connected, resolve
from aqueduct_core.transport.datagram_server import DatagramServer
from aqueduct_core.transport.dialled_socket import DialledSocket
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.plain_udp.link import PlainLink, PlainSettings
from aqueduct_core.transport.plain_udp.reach import check_reach, reach_warning
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_core.transport.udp_socket import UdpSocket

AcceptPeer: TypeAlias = Callable[[Address, float], tuple[Engine[Any], OnEvents]]

STRANGERS = 1_024
"""Peers at once that were heard of for less than their probation; the oldest of them give way to
others."""
DEFAULT_LIMITS = ListenLimits(handshakes=STRANGERS)
"""4,096 peers, and 512 MB of memory for all of them together; and those strangers."""

_logger = logging.getLogger(__name__)


async def listen(
    host: str,
    port: int,
    *,
    make_engine: AcceptPeer,
    settings: PlainSettings | None = None,
    limits: ListenLimits | None = None,
) -> PlainListener:
    """Listen on ``host`` (an address of this machine; "" or "::" for all) and ``port`` (0: any).

    ``make_engine`` is called for each peer when its first packet comes, and returns the engine and
    who takes its events. The engine says ``Admit`` when the peer has shown that it receives at its
    address; until then it is sent no more than came from it (`PlainLink`). One whose address
    changes is another peer. ``limits`` bounds how many there are, strangers (as handshakes) and
    their memory. What in it is of TLS has no meaning here, nor has the bound of handshakes of one
    network: who forges addresses can write any, so it would hold for honest peers alone.

    Raises:
        ConnectFailed.REFUSED: the address is in use or not of this machine.
        ConnectFailed.DNS: ``host`` is a name that is not known.
        InvalidOption.BAD_VALUE: the address is not loopback, and the network not ``trusted``.
    """
    settings = settings or PlainSettings()
    addresses = await resolve(host, port, passive=True)
    if not addresses:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Give an IP address")
    check_reach(addresses[0][1], trusted=settings.trusted)
    limits = limits or DEFAULT_LIMITS
    limits = replace(limits, handshakes_per_network=limits.handshakes)
    listener = PlainListener(make_engine, settings, limits)
    sock = bound(*addresses[0])
    moderation = listener.moderation
    listener.open(UdpSocket(sock, listener.receive, listener.report, moderation=moderation))
    if listener.warning:
        _logger.warning("%s", listener.warning)
    return listener


class PlainListener(DatagramServer):
    """Has a connection for each peer that sends, until ``close``; made by ``listen``."""

    def __init__(
        self, make_engine: AcceptPeer, settings: PlainSettings, limits: ListenLimits
    ) -> None:
        super().__init__(limits)
        self._make_engine = make_engine
        self._settings = settings

    @property
    def warning(self) -> str | None:
        """What everybody should know who uses it: for its start, and its status."""
        return reach_warning(self._socket.address)

    def _key(self, data: bytes, address: Address) -> Hashable:
        return address

    def _may_open(self, data: bytes) -> bool:
        return bool(data)

    def _accept(self, data: bytes, address: Address) -> Driver | None:
        if self._refused(address) or not self._has_room(address[0]):
            return None
        link = PlainLink(self._settings, address, self._loop.time(), stranger=True)
        return self._begin(link, address, address, proved=False)

    def _welcome(self, driver: Driver, now: float) -> tuple[Engine[Any], OnEvents]:
        self.counts.ready += 1
        return self._make_engine(driver.peer, now)


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
        InvalidOption.BAD_VALUE: the address is not loopback, and the network not ``trusted``.
        Exception: whatever ``make_engine`` raised.
    """
    addresses = await resolve(host, port)
    if not addresses:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Check the name")
    family, address = addresses[0]
    settings = settings or PlainSettings()
    check_reach(address, trusted=settings.trusted)
    line = DialledSocket(connected(family, address), address)
    now = asyncio.get_running_loop().time()
    driver = Driver(
        PlainLink(settings, address, now, stranger=False),
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
