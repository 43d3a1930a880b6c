"""What the engine may like to know of a link: how many streams the peer allows, how far it is."""

from __future__ import annotations

from typing import Protocol

from aqueduct_core.engine.contract import Fact, LinkRtt, StreamLimit

RTT_CHANGE = 0.25
"""A round-trip time is told again when it differs from the last one told by this share."""


class Measured(Protocol):
    """The connection, as far as it is asked here."""

    @property
    def peer_stream_limit(self) -> int:
        """Unidirectional streams that the peer lets us open in all."""

    @property
    def round_trip(self) -> float | None:
        """Smoothed round-trip time in seconds; None before the first sample."""


class Hints:
    """Facts about the link that change slowly; each is told when it has changed (enough)."""

    __slots__ = ("_connection", "_rtt", "_streams")

    def __init__(self, connection: Measured) -> None:
        self._connection = connection
        self._streams = -1
        self._rtt = 0.0

    def facts(self) -> list[Fact]:
        """Those that have changed since the last call."""
        out: list[Fact] = []
        streams = self._connection.peer_stream_limit
        if streams != self._streams:
            self._streams = streams
            out.append(StreamLimit(streams))
        rtt = self._connection.round_trip
        if rtt is not None and abs(rtt - self._rtt) > RTT_CHANGE * self._rtt:
            self._rtt = rtt
            out.append(LinkRtt(rtt))
        return out
