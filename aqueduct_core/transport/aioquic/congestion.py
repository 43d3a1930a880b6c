"""Congestion control with a bound on what waits in queues.

Cubic and Reno widen their window until something is lost. Where nothing is ever lost (loopback, a
fast network with deep buffers) that ends at tens of megabytes in flight, which bring no speed:
they only wait, and each acknowledgement costs time in proportion to them, at both ends.

Here a window also takes in runs of packets at once. It grows to the byte as it does by one packet
after another: what an acknowledgement brings is acknowledged at one time, so all that depends on
the time is computed once, and the rest step by step, with the roundings of aioquic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from aioquic.quic.congestion.base import (
    K_MINIMUM_WINDOW,
    QuicCongestionControl,
    register_congestion_control,
)
from aioquic.quic.congestion.cubic import K_CUBIC_MAX_IDLE_TIME, CubicCongestionControl
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


class SentBytes(Protocol):
    """What a window asks of a packet that is acknowledged."""

    sent_bytes: int

    @property
    def sent_time(self) -> float | None: ...


class Bounded(QuicCongestionControl):
    """Mixed in before an algorithm: keeps its ``congestion_window`` within what the path holds,
    `HEADROOM` times, or `FLOOR`.

    What was in flight during a round trip, in the proportion of the shortest round trip to this
    one, was on the path; the rest waited in queues.
    """

    losses = 0
    """How often packets were lost."""
    peer_waited = 0.0
    """Seconds that the peer kept the acknowledgement back that is being handled: no part of the
    path, and no sign that a queue grows on it."""
    _max_datagram_size: int
    _bound: float = FLOOR
    _peak: int = 0
    _least: float = math.inf
    _least_at: float = 0.0

    def on_packet_sent(self, *, packet: QuicSentPacket) -> None:
        super().on_packet_sent(packet=packet)  # type: ignore[safe-super]
        if self.bytes_in_flight > self._peak:
            self._peak = self.bytes_in_flight

    def on_run_sent(self, size: int) -> None:
        """Like ``on_packet_sent`` for packets of ``size`` bytes in all, behind ``begin_anew``."""
        self.bytes_in_flight += size
        if self.bytes_in_flight > self._peak:
            self._peak = self.bytes_in_flight

    def on_packets_lost(self, *, now: float, packets: Iterable[QuicSentPacket]) -> None:
        self.losses += 1
        super().on_packets_lost(now=now, packets=packets)  # type: ignore[safe-super]

    def on_packet_acked(self, *, now: float, packet: QuicSentPacket) -> None:
        super().on_packet_acked(now=now, packet=packet)  # type: ignore[safe-super]
        if self.congestion_window > self._bound:
            self.congestion_window = int(self._bound)

    def on_rtt_measurement(self, *, now: float, rtt: float) -> None:
        rtt = max(rtt - self.peer_waited, min(rtt, self._least))  # as in RFC 9002 §5.3
        super().on_rtt_measurement(now=now, rtt=rtt)  # type: ignore[safe-super]
        if rtt <= self._least or now - self._least_at > MEMORY:
            self._least, self._least_at = rtt, now
        on_path = self._peak * self._least / rtt if rtt > 0 else self._peak
        self._bound = max(FLOOR, HEADROOM * on_path)
        self._peak = self.bytes_in_flight
        if self.congestion_window > self._bound:
            self.congestion_window = int(self._bound)

    def resize(self, size: int) -> None:
        """Datagrams have ``size`` bytes from now on. The window has as many bytes as before, or the
        least of RFC 9002 §7.2."""
        self._max_datagram_size = size
        self.congestion_window = max(self.congestion_window, K_MINIMUM_WINDOW * size)


class BoundedCubic(Bounded, CubicCongestionControl):
    """Cubic (RFC 9438) with the bound."""

    def resize(self, size: int) -> None:
        """The curve counts in datagrams: it is stretched to go on from the same bytes."""
        self.K *= (self._max_datagram_size / size) ** (1 / 3)
        self.additive_increase_factor = size
        super().resize(size)

    def begin_anew(self, now: float) -> None:
        """Make the window small again after so long a silence (RFC 9002 §7.8), before anything is
        sent. aioquic does so behind each packet until the first acknowledgement."""
        if self.last_ack != 0.0 and now - self.last_ack >= K_CUBIC_MAX_IDLE_TIME:
            self.reset()
            self.last_ack = now

    def on_run_acked(self, now: float, packets: Sequence[SentBytes]) -> None:
        """Like ``on_packet_acked`` for each."""
        bound = int(self._bound)
        window, threshold = self.congestion_window, self.ssthresh
        at, count = 0, len(packets)
        while at < count and (threshold is None or window < threshold):
            window += packets[at].sent_bytes
            self.bytes_in_flight -= packets[at].sent_bytes
            if window > self._bound:
                window = bound
            at += 1
        self.congestion_window = window
        if at < count and (self._first_slow_start or self._starting_congestion_avoidance):
            self.on_packet_acked(now=now, packet=packets[at])  # type: ignore[arg-type]  # a slim one
            at += 1
        if at < count:
            self._avoid(now, packets[at:])
        self.last_ack = packets[-1].sent_time or 0.0

    def _avoid(self, now: float, packets: Sequence[SentBytes]) -> None:
        """Congestion avoidance, as begun."""
        bound = int(self._bound)
        segment, increase = self._max_datagram_size, self.additive_increase_factor
        window, estimate, threshold = self.congestion_window, self._W_est, self.ssthresh
        elapsed = now - self._t_epoch
        ahead, friendly = self.W_cubic(elapsed + self.rtt), self.W_cubic(elapsed)
        for packet in packets:
            size = packet.sent_bytes
            self.bytes_in_flight -= size
            if threshold is not None and window < threshold:
                window += size
            else:
                estimate = int(estimate + increase * (size / window))
                if friendly < estimate:
                    window = estimate
                else:
                    if ahead < window:
                        target = window
                    elif ahead > 1.5 * window:
                        target = int(window * 1.5)
                    else:
                        target = ahead
                    window = int(window + (target - window) * (segment / window))
            if window > self._bound:
                window = bound
        self.congestion_window, self._W_est = window, estimate


class BoundedReno(Bounded, RenoCongestionControl):
    """Reno (RFC 9002 §7) with the bound."""

    def begin_anew(self, now: float) -> None:
        """Reno does not."""

    def on_run_acked(self, now: float, packets: Sequence[SentBytes]) -> None:
        """Like ``on_packet_acked`` for each."""
        bound = int(self._bound)
        window, threshold, stash = self.congestion_window, self.ssthresh, self._congestion_stash
        recovered = self._congestion_recovery_start_time
        for packet in packets:
            size = packet.sent_bytes
            self.bytes_in_flight -= size
            if (packet.sent_time or 0.0) > recovered:
                if threshold is None or window < threshold:
                    window += size
                else:
                    stash += size
                    count = stash // window
                    if count:
                        stash -= count * window
                        window += count * self._max_datagram_size
            if window > self._bound:
                window = bound
        self.congestion_window, self._congestion_stash = window, stash


ALGORITHMS = {"cubic": "bounded-cubic", "reno": "bounded-reno"}
"""The names under which aioquic finds them, by the names of ``LinkSettings``."""

register_congestion_control(ALGORITHMS["cubic"], BoundedCubic)
register_congestion_control(ALGORITHMS["reno"], BoundedReno)
