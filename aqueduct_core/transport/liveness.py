"""Is a peer gone of which the network says that nobody listens there? Pure: times and counts.

An ICMP answer can be forged by anyone who guesses our ports (RFC 9000 §21.5), so it proves
nothing. It is a reason to ask: the peer is pinged, and only silence in answer to pings, together
with what the network says, ends the connection. A peer that is there answers, whatever is forged.
"""

from __future__ import annotations

ASK_EVERY = 0.2
"""Seconds between two pings."""
REFUSED_SECONDS = 1.0
REFUSED_TIMES = 3
"""Gone: refused so often, over so long a time, and silent throughout."""
SILENT_SECONDS = 3.0
"""Gone as well: refused once and silent so long. A process that was started again on the port of
one that was killed takes packets for connections that it does not know and says nothing."""
ROUND_TRIPS = 4
"""Patience in round trips, where that is longer than ``REFUSED_SECONDS``; three times as much for
silence."""


class LivenessProbe:
    """Begins with a refusal; ``received`` is a count that grows with whatever the peer sends."""

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
