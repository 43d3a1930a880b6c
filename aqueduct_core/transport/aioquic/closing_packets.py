"""The last packets of a connection, for a peer that goes on sending."""

from __future__ import annotations

from aqueduct_core.transport.link import Address


class ClosingPackets:
    """Packets that say that the connection is closed, once there are any; sent again to a peer that
    still sends, ever more rarely (RFC 9000 §10.2.1)."""

    __slots__ = ("_answers", "_packets", "_received")

    def __init__(self) -> None:
        self._packets: list[tuple[bytes, Address]] = []
        self._received = 0
        self._answers = 0

    def __bool__(self) -> bool:
        return bool(self._packets)

    def keep(self, packets: list[tuple[bytes, Address]]) -> None:
        self._packets = packets

    def received(self, datagrams: int) -> None:
        """So many more came from the peer."""
        self._received += datagrams

    def due(self) -> list[tuple[bytes, Address]]:
        """The packets, if they are to be sent once more."""
        received, self._received = self._received, 0
        if not received:
            return []
        self._answers += 1
        return [] if self._answers & (self._answers - 1) else self._packets
