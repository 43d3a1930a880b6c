"""What the engine may like to know of a link: how many streams the peer allows, how far it is, and
how much the path carries."""

from __future__ import annotations

from typing import Protocol

from aqueduct_core.engine.inputs import Input, LinkRoom, LinkRtt, StreamLimit

CHANGE = 0.25
"""A measured value is told again when it differs from the last one told by this share."""


class Measured(Protocol):
    """The connection, as far as it is asked here."""

    @property
    def peer_stream_limits(self) -> tuple[int, int]:
        """Streams that the peer lets us open in all: unidirectional ones, and bidirectional."""

    @property
    def round_trip(self) -> float | None:
        """Smoothed round-trip time in seconds; None before the first sample."""

    @property
    def bytes_per_round_trip(self) -> int:
        """What may be on its way at once."""


class Hints:
    """Inputs about the link that change slowly; each is told when it has changed (enough)."""

    __slots__ = ("_connection", "_room", "_rtt", "_streams")

    def __init__(self, connection: Measured) -> None:
        self._connection = connection
        self._streams = (-1, 0)
        self._rtt = 0.0
        self._room = 0

    def inputs(self) -> list[Input]:
        """Those that have changed since the last call."""
        out: list[Input] = []
        streams = self._connection.peer_stream_limits
        if streams != self._streams:
            for bidirectional, limit in enumerate(streams):
                if limit != self._streams[bidirectional]:
                    out.append(StreamLimit(limit, bool(bidirectional)))
            self._streams = streams
        rtt = self._connection.round_trip
        if rtt is not None and abs(rtt - self._rtt) > CHANGE * self._rtt:
            self._rtt = rtt
            out.append(LinkRtt(rtt))
        return out + self.room()

    def room(self) -> list[Input]:
        """The bytes of datagrams that may wait in the link, if they have changed enough."""
        room = self._connection.bytes_per_round_trip
        if abs(room - self._room) <= CHANGE * self._room:
            return []
        self._room = room
        return [LinkRoom(room)]
