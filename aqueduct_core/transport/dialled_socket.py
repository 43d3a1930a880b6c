"""The socket of one dialled connection, whatever its link is made of."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence

from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.moderation import Moderation
from aqueduct_core.transport.udp_socket import UdpSocket

ASK_EVERY = 0.2
"""Seconds between two pings."""
REFUSED_SECONDS = 1.0
REFUSED_TIMES = 3
"""Gone: refused so often, over so long a time, and silent throughout."""
SILENT_SECONDS = 3.0
"""Gone as well: refused once and silent so long. A process that was started again on the port of
one that was killed takes packets for connections that it does not know and says nothing."""
ROUND_TRIPS = 4
"""So many round trips, where these are longer than ``REFUSED_SECONDS``; three times as much for
silence."""


class DialledSocket:
    """Brings its driver what arrives, and closes when that is done.

    Usage: ``send`` and ``turned`` are for the driver to call, which is then set as ``driver``.
    ``unreachable`` is what the network said before anything came of the connection.
    ``moderation``: as of ``ListenLimits``; it does not hold during the handshake.
    """

    def __init__(
        self,
        sock: socket.socket,
        address: Address,
        *,
        unfragmented: bool = False,
        moderation: float = 0.0,
    ) -> None:
        self.address = address
        self.driver: Driver | None = None
        self.unreachable: OSError | None = None
        self._probe: LivenessProbe | None = None
        clock = asyncio.get_running_loop().time
        self._socket = UdpSocket(
            sock,
            self._burst,
            self._error,
            peer=address,
            unfragmented=unfragmented,
            moderation=Moderation(moderation, self._begins, clock) if moderation else None,
        )

    @property
    def unfragmented(self) -> bool:
        """See ``UdpSocket``."""
        return self._socket.unfragmented

    def send(self, datagrams: list[tuple[bytes, Address]]) -> int | None:
        return self._socket.send(datagrams)

    def is_behind(self) -> bool:
        """More has arrived than was read so far."""
        return self._socket.backlogged

    def turned(self, driver: Driver) -> None:
        if driver.closed:
            self._socket.close()
            self.driver = None

    def end(self) -> None:
        """Give it up, whatever has come of it."""
        if self.driver is not None:
            self.driver.abandon()
        self._socket.close()

    def _begins(self) -> bool:
        return self.driver is None or not self.driver.link.ready

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


class LivenessProbe:
    """Is a peer gone of which the network says that nobody listens there? Pure: times and counts.

    An ICMP answer can be forged by anyone who guesses our ports (RFC 9000 §21.5), so it proves
    nothing. It is a reason to ask: the peer is pinged, and only silence in answer to pings,
    together with what the network says, ends the connection. A peer that is there answers, whatever
    is forged. Begins with a refusal; ``received`` is a count that grows with whatever the peer
    sends.
    """

    def __init__(self, now: float, received: int, round_trip: float | None) -> None:
        self._since = now
        self._last = now
        self._refusals = 1
        self._received = received
        self._slow = max(1.0, ROUND_TRIPS * (round_trip or 0.0) / REFUSED_SECONDS)

    def refused(self, now: float) -> None:
        self._last = now
        self._refusals += 1

    def verdict(self, now: float, received: int) -> bool | None:
        """True: it is gone. False: it is there. None: ping it, and look again."""
        if received != self._received:
            return False
        refused = self._refusals >= REFUSED_TIMES
        if refused and self._last - self._since >= REFUSED_SECONDS * self._slow:
            return True
        return True if now - self._since >= SILENT_SECONDS * self._slow else None
