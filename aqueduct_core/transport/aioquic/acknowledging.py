"""When packets are acknowledged: with what is sent anyhow, at once to a sender in a flight.

aioquic acknowledges a millisecond after the first packet that asks for it, whatever comes. So each
flight costs a turn for its timer, and each message that is sent by itself a packet more, of which
it costs the peer a turn to learn nothing: its message is acknowledged by its protocol a few
milliseconds later, in a packet that could have said both.

Here the end of a burst decides. Where more came than one whole datagram, a sender is in the midst
of a flight and its window may be waiting: the acknowledgement leaves in the same turn, though not
more often than once in ``OFTENEST``. What is less waits for `LONGEST`, within which the peer's own
timers expect it (RFC 9000 §13.2.1), for something to leave with. No sender waits for it: a window
that has no room for one more datagram has more than one under way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicReceiveContext
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.send import RunConnection
from aqueduct_core.transport.settings import SMALLEST_DATAGRAM, LinkSettings

LONGEST = 0.02
"""Seconds that an acknowledgement waits: less than the 25 ms that aioquic announces, by what an
event loop may be late."""
OFTENEST = 0.001
"""Seconds between two, at least, where packets come without end."""


class AckingConnection(RunConnection):
    """A ``RunConnection`` whose acknowledgements cost neither a turn nor a packet where they need
    not. Where fast paths are off it is nothing but that."""

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        settings: LinkSettings,
        most_streams: int | None = None,
        **start: Any,
    ) -> None:
        self._unacked = 0  # bytes that came since the last acknowledgement
        self._largest = 0  # datagram of those
        self._whole = SMALLEST_DATAGRAM  # bytes of a whole datagram of the peer, about
        self._acked_at = 0.0
        self._holes = False  # in what came, as of the burst before
        super().__init__(
            configuration=configuration, settings=settings, most_streams=most_streams, **start
        )

    def came(self, datagrams: Sequence[tuple[bytes, Any]], now: float) -> None:
        """They were taken in: settle when that is acknowledged, if it asks for it."""
        if self._recovery is None or not self._handshake_confirmed or not self._spaces:
            return
        self._ack_delay = LONGEST
        sizes = [len(data) for data, _ in datagrams]
        self._unacked += sum(sizes)
        self._largest = max(self._largest, *sizes)
        space = self._spaces[Epoch.ONE_RTT]
        holes, before = len(space.ack_queue) > 1, self._holes
        self._holes = holes
        if space.ack_at is None:
            return
        # A hole is told at once, and so is that it is filled: the sender may be about to repeat it.
        if self._unacked > max(self._whole, self._largest) or holes or before:
            space.ack_at = min(space.ack_at, max(now, self._acked_at + OFTENEST))

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        self._join_ack(now)
        return super().datagrams_to_send(now)

    def _join_ack(self, now: float) -> None:
        """An acknowledgement that would wait goes with what is sent now."""
        space = self._spaces[Epoch.ONE_RTT] if self._spaces else None
        if space is None or space.ack_at is None or space.ack_at <= now:
            return
        recovery = self._recovery
        waits = len(self._order) or self._due or self._datagrams_pending or self._limits_due
        if (
            recovery is not None
            and waits
            and recovery.congestion_window - recovery.bytes_in_flight >= self._max_datagram_size
            and recovery.pacer.next_send_time(now) is None
        ):
            space.ack_at = now

    def _handle_ack_frame(self, context: QuicReceiveContext, frame_type: int, buf: Any) -> None:
        start = buf.tell()
        _, waited = buf.pull_uint_var(), buf.pull_uint_var() << self._remote_ack_delay_exponent
        buf.seek(start)
        self._congestion.peer_waited = min(waited / 1e6, self._loss.max_ack_delay)
        super()._handle_ack_frame(context, frame_type, buf)

    def _write_ack_frame(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, now: float
    ) -> None:
        super()._write_ack_frame(builder, space, now)
        self._acked_at = now
        self._whole = max(SMALLEST_DATAGRAM, self._largest)
        self._unacked = self._largest = 0
