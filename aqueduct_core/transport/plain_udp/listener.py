"""Listen for packets of engines: one socket, many peers, each known by its address."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

from aqueduct_core.engine.engine import Engine
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.transport.addresses import bound, resolve
from aqueduct_core.transport.datagram_server import DatagramServer
from aqueduct_core.transport.driver import Driver, OnEvents
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.plain_udp.link import PlainLink, PlainSettings
from aqueduct_core.transport.settings import ListenLimits
from aqueduct_core.transport.udp_socket import UdpSocket

AcceptPeer: TypeAlias = Callable[[Address, float], tuple[Engine[Any], OnEvents]]


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
    address; until then the peer is a stranger, within the bounds of ``limits`` for handshakes, and
    is sent at most three times what came from it. What in ``limits`` is of TLS has no meaning here.

    Raises:
        ConnectFailed.REFUSED: the address is in use or not of this machine.
        ConnectFailed.DNS: ``host`` is a name that is not known.
    """
    addresses = await resolve(host, port, passive=True)
    if not addresses:
        raise ConnectFailed("DNS", f"the host {host!r} has no address", "Give an IP address")
    listener = PlainListener(make_engine, settings or PlainSettings(), limits or ListenLimits())
    listener.open(UdpSocket(bound(*addresses[0]), listener.receive, listener.report))
    return listener


class PlainListener(DatagramServer):
    """Has a connection for each peer that sends, until ``close``; made by ``listen``."""

    def __init__(
        self, make_engine: AcceptPeer, settings: PlainSettings, limits: ListenLimits
    ) -> None:
        super().__init__(limits)
        self._make_engine = make_engine
        self._settings = settings

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
