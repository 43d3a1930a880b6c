"""Congestion control with a bound on what waits in queues.

Cubic and Reno widen their window until something is lost. Where nothing is ever lost (loopback, a
fast network with deep buffers) that ends at tens of megabytes in flight, which bring no speed:
they only wait, and each acknowledgement costs time in proportion to them, at both ends.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from aioquic.quic.congestion.base import QuicCongestionControl, register_congestion_control
from aioquic.quic.congestion.cubic import CubicCongestionControl
from aioquic.quic.congestion.reno import RenoCongestionControl

if TYPE_CHECKING:
    from aioquic.quic.packet_builder import QuicSentPacket

FLOOR = 1 << 20
"""Bytes that may be in flight in any case: 17 ms at the speed of one core."""

HEADROOM = 4
"""How many times what the path itself holds may be in flight. At 1 a window could never grow;
above 2 it doubles each round trip as in slow start."""

MEMORY = 10.0
"""Seconds after which the shortest round trip is measured anew: a path may become longer."""


class _Bounded(QuicCongestionControl):
    """Mixed in before an algorithm: keeps its ``congestion_window`` within what the path holds,
    `HEADROOM` times, or `FLOOR`.

    What was in flight during a round trip, in the proportion of the shortest round trip to this
    one, was on the path; the rest waited in queues.
    """

    _bound: float = FLOOR
    _peak: int = 0
    _least: float = math.inf
    _least_at: float = 0.0

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        super().on_packet_sent(packet=packet)  # type: ignore[safe-super]
        if self.bytes_in_flight > self._peak:
            self._peak = self.bytes_in_flight

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        super().on_packet_acked(now=now, packet=packet)  # type: ignore[safe-super]
        if self.congestion_window > self._bound:
            self.congestion_window = int(self._bound)

    def on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        super().on_rtt_measurement(now=now, rtt=rtt)  # type: ignore[safe-super]
        if rtt <= self._least or now - self._least_at > MEMORY:
            self._least, self._least_at = rtt, now
        on_path = self._peak * self._least / rtt if rtt > 0 else self._peak
        self._bound = max(FLOOR, HEADROOM * on_path)
        self._peak = self.bytes_in_flight
        if self.congestion_window > self._bound:
            self.congestion_window = int(self._bound)


class BoundedCubic(_Bounded, CubicCongestionControl):
    """Cubic (RFC 9438) with the bound."""


class BoundedReno(_Bounded, RenoCongestionControl):
    """Reno (RFC 9002 §7) with the bound."""


ALGORITHMS = {"cubic": "bounded-cubic", "reno": "bounded-reno"}
"""The names under which aioquic finds them, by the names of ``LinkSettings``."""

register_congestion_control(ALGORITHMS["cubic"], BoundedCubic)
register_congestion_control(ALGORITHMS["reno"], BoundedReno)
