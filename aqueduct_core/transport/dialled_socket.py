"""The socket of one dialled connection, whatever its link is made of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.liveness import ASK_EVERY, LivenessProbe
from aqueduct_core.transport.udp_socket import UdpSocket


class DialledSocket:
    """Brings its driver what arrives, and closes when that is done.

    Usage: ``send`` and ``turned`` are for the driver to call, which is then set as ``driver``.
    ``unreachable`` is what the network said before anything came of the connection.
    """

    def __init__(self, sock: socket.socket, address: Address) -> None:
        self.address = address
        self.driver: Driver | None = None
        self.unreachable: OSError | None = None
        self._probe: LivenessProbe | None = None
        self._socket = UdpSocket(sock, self._burst, self._error, peer=address)

    def send(self, datagrams: list[tuple[bytes, Address]]) -> None:
        self._socket.send(datagrams)

    def turned(self, driver: Driver) -> None:
        if driver.closed:
            self._socket.close()
            self.driver = None

    def end(self) -> None:
        """Give it up, whatever has come of it."""
        if self.driver is not None:
            self.driver.abandon()
        self._socket.close()

    def _burst(self, datagrams: Sequence[tuple[bytes, Address]]) -> None:
        if self.driver is not None:
            self.driver.turn(datagrams, self.driver.now())

    def _error(self, error: OSError) -> None:
        """ICMP is a hint that anyone on the path can forge: it ends a dial. A connection that is
        up ends by it only when the peer does not answer either; all but a closed port is left to
        its idle timeout, since paths come and go."""
        driver = self.driver
        if driver is None or driver.closed or driver.lost is not None:
            return
        link = driver.link
        if not link.ready or not link.counts.datagrams_received:
            self.unreachable = error
            driver.abandon(f"unreachable: {error.strerror}")
        elif isinstance(error, ConnectionRefusedError):
            if self._probe is not None:
                self._probe.refused(driver.now())
                return
            received = link.counts.datagrams_received
            self._probe = LivenessProbe(driver.now(), received, link.round_trip)
            self._ask(driver)

    def _ask(self, driver: Driver) -> None:
        if self._probe is None or driver.closed or driver.lost is not None:
            return
        now = driver.now()
        gone = self._probe.verdict(now, driver.link.counts.datagrams_received)
        if gone is None and driver.link.probe():
            driver.turn((), now)
            asyncio.get_running_loop().call_later(ASK_EVERY, self._ask, driver)
            return
        self._probe = None
        if gone:
            driver.abandon("unreachable: nobody listens at the peer's address any more")
