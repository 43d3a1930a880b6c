"""The last packets of a connection, for a peer that goes on sending."""

from __future__ import annotations

from aqueduct_core.transport.link import Address


class Farewell:
    """Packets that say that the connection is closed, once there are any; sent again to a peer that
    still knocks, ever more rarely (RFC 9000 §10.2.1)."""

    __slots__ = ("_answered", "_knocks", "_packets")

    def __init__(self) -> None:
        self._packets: list[tuple[bytes, Address]] = []
        self._knocks = 0
        self._answered = 0

    def __bool__(self) -> bool:
        return bool(self._packets)

    def keep(self, packets: list[tuple[bytes, Address]]) -> None:
        self._packets = packets

    def knock(self, datagrams: int) -> None:
        """So many more came from the peer."""
        self._knocks += datagrams

    def again(self) -> list[tuple[bytes, Address]]:
        """The packets, if they are due once more."""
        knocks, self._knocks = self._knocks, 0
        if not knocks:
            return []
        self._answered += 1
        return [] if self._answered & (self._answered - 1) else self._packets
