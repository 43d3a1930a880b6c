"""Whether clients are asked to prove their address before anything is kept for them.

A Retry costs an honest client a round trip, and a listener without one builds a connection for each
Initial that anybody sends. So ``auto`` asks while handshakes of strangers pile up or Initials come
faster than clients do, and for some seconds more.
"""

from __future__ import annotations

from typing import Literal

RetryMode = Literal["auto", "always", "never"]

RATE = 100.0
"""Initials a second that are let in for as long as they come; a core completes some hundreds."""
BURST = 200.0
"""Initials beyond that rate that come at once, as when all clients of a host are started."""
CALM = 5.0
"""Seconds without pressure after which nobody is asked any more."""


class AddressValidation:
    """``now`` is a monotonic time in seconds.

    Args:
        mode: ``always`` and ``never`` leave nothing to decide.
        unproved: handshakes under way, without proof, from which on clients are asked.
    """

    def __init__(self, mode: RetryMode, unproved: int) -> None:
        self._mode = mode
        self._unproved = unproved
        self._level = 0.0
        self._at = 0.0
        self._until: float | None = None

    def came(self, now: float) -> None:
        """An Initial came from a client that has proved nothing yet."""
        self._level = self._excess(now) + 1.0
        self._at = now

    def wanted(self, unproved: int, now: float) -> bool:
        """Whether a client is to prove its address, while so many handshakes without proof are
        under way."""
        if self._mode != "auto":
            return self._mode == "always"
        if self._excess(now) > BURST or unproved >= self._unproved:
            self._until = now + CALM
        if self._until is not None and now >= self._until:
            self._until = None
        return self._until is not None

    def _excess(self, now: float) -> float:
        """Initials that came beyond the rate."""
        return max(0.0, self._level - (now - self._at) * RATE)
