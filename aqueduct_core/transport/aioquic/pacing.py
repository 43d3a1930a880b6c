"""Pacing in bursts that grow with the speed of a path.

aioquic lets up to 16 packets leave at once and then one after another. An event loop that comes by
every millisecond cannot keep up so with a path that carries thousands of packets in that time: most
of its turns end with a timer for the next packet. Here the bucket holds what the path carries in
``QUANTUM``, from 16 packets to 64, and a sender that has emptied it is woken when half of it is
there again. A slow path has the bursts of aioquic.
"""

from __future__ import annotations

from aioquic.quic.recovery import QuicPacketPacer

QUANTUM = 0.001
"""Seconds of a path's speed that may leave in one burst, about what other senders allow (BBR's send
quantum); shorter than the queue of any router."""
LEAST_BURST = 16
MOST_BURST = 64
"""Packets: what the kernel takes in one segmented write."""


class BurstPacer(QuicPacketPacer):
    """A ``QuicPacketPacer`` with a larger bucket where the path is fast.

    ``bucket_time`` is what is in it, in seconds of the path's speed; ``packet_time`` is what a
    packet takes out. None: no round trip was measured, and nothing is paced.
    """

    def update_rate(self, congestion_window: int, smoothed_rtt: float) -> None:
        super().update_rate(congestion_window, smoothed_rtt)
        assert self.packet_time is not None
        burst = min(MOST_BURST, QUANTUM / self.packet_time)
        if burst > LEAST_BURST:
            # aioquic's other bound holds: a quarter of the window.
            quarter = congestion_window // 4 / self._max_datagram_size
            self.bucket_max = max(2.0, min(quarter, burst)) * self.packet_time

    def next_send_time(self, now: float) -> float | None:  # type: ignore[override]
        """When to come again; None: a packet may leave at once."""
        if self.packet_time is None:
            return None
        self.update_bucket(now)
        if self.bucket_time > 0:
            return None
        return now + max(self.packet_time, self.bucket_max / 2)

    def allowance(self, now: float, most: int) -> int:
        """How many packets may leave at once, up to ``most``: as many as ``next_send_time`` and
        ``update_after_send`` in turn would let go."""
        if self.packet_time is None:
            return most
        self.update_bucket(now)
        left, each, count = self.bucket_time, self.packet_time, 0
        while count < most and left > 0:
            left = left - each if left >= each else 0.0
            count += 1
        return count

    def spend(self, packets: int) -> None:
        """So many of those that ``allowance`` has just let go have left."""
        if self.packet_time is None:
            return
        left, each = self.bucket_time, self.packet_time
        for _ in range(packets):
            left = left - each if left >= each else 0.0
        self.bucket_time = left
