"""aioquic's connection, made to follow consumption.

What differs from the stock class:

* **Credit follows consumption.** Stock aioquic doubles its windows by itself, so nothing that an
  application does holds a peer back. Here limit = consumed + window, for a stream and for the
  connection, and only ``consume`` moves it.
* **Memory.** What a peer sends with holes is kept in a bounded number of ranges, and of packets
  that only acknowledge a bounded number is remembered.
* **Closing is short.** However slow the path looks, the closing period is bounded.
* **Counting.** ``unacknowledged`` is kept as bytes come and go, never computed by a walk.
"""

from __future__ import annotations

import logging
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import (
    CONNECTION_LIMIT_FRAME_CAPACITY,
    MAX_STREAM_DATA_FRAME_CAPACITY,
    Limit,
    QuicConnectionError,
)
from aioquic.quic.packet import QuicErrorCode, QuicFrameType
from aioquic.quic.packet_builder import QuicDeliveryState, QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic.mtu_probes import ProbingConnection
from aqueduct_core.transport.aioquic.streams import (
    MAX_CONNECTION_RANGES,
    CryptoReceiver,
    Stream,
    StreamKind,
    StreamTable,
)
from aqueduct_core.transport.settings import LinkSettings

LONGEST_CLOSING = 3.0
"""Seconds that a closed connection lingers at most. RFC 9000 §10.2 asks for three probe timeouts,
and one of these is half a minute after a process stood still for twenty seconds; by then nobody
waits for the answer any more, but somebody may for the end of a listener."""

MOST_ANSWERS = 256
"""Sent packets that only acknowledge and are remembered, about. A peer that sends tiny packets and
acknowledges none of ours would have one kept for each, for as long as it likes. They are kept to
forget ranges that the peer knows as received; of these there are 64 at most anyway."""

CONNECTION_BYTES = 96 << 10
"""A connection with its TLS state, keys and tables, that carries nothing: half-open or idle."""
STREAM_BYTES = 800
"""An open stream of one direction with its half and tables; each half of a bidirectional one."""
RANGE_BYTES = 160
"""A range that waits behind a hole, beside its bytes; one of stream numbers that were skipped."""
PACKET_BYTES = 700
"""A sent packet that is remembered until its fate is known, with what is to be done then."""
DATAGRAM_BYTES = 200
"""A datagram that has not left, beside its bytes."""

_logger = logging.getLogger(__name__)


class CreditedConnection(ProbingConnection):
    """A ``QuicConnection`` whose windows follow ``consume``.

    Args:
        settings: what the peer may do, of each kind of streams at most ``most_streams`` at once.
    """

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        settings: LinkSettings,
        most_streams: int | None = None,
        **start: Any,
    ) -> None:
        super().__init__(configuration=configuration, **start)
        self.unacknowledged = 0
        self.untaken = 0
        """Streams of ours with bytes, or a reset, that the peer has not acknowledged."""
        self.ranges = 0
        """Ranges that wait behind holes, in all streams."""
        self.scattered = 0
        """Their bytes."""
        self._held_back = False
        self._stream_window = self._connection_window = 0
        self._consumed = 0
        self._look_at = MOST_ANSWERS  # remembered packets, to look for those that only acknowledge
        self._due: dict[int, Stream] = {}
        self._table = StreamTable(self._due)
        self._streams = self._table
        self._uni = StreamKind(self._local_max_streams_uni)
        self._bidi = StreamKind(self._local_max_streams_bidi)
        self.offer(settings, most_streams)

    def offer(self, settings: LinkSettings, most_streams: int | None) -> None:
        """What the peer may do, until it is told by the transport parameters."""
        configuration = self._configuration
        configuration.idle_timeout = settings.idle_timeout
        configuration.max_datagram_frame_size = settings.max_datagram_frame_size or None
        self.most_datagram = settings.max_datagram_size
        self._stream_window = window = settings.stream_window
        self._local_max_stream_data_uni = window
        self._local_max_stream_data_bidi_local = window
        self._local_max_stream_data_bidi_remote = window
        self._connection_window = settings.connection_window
        self._local_max_data.value = self._local_max_data.sent = settings.connection_window
        for kind, streams in self._kinds(settings):
            kind.offer(streams if most_streams is None else min(streams, most_streams))

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        for stream in self._crypto_streams.values():
            stream.receiver = CryptoReceiver()

    def _close_begin(self, is_initiator: bool, now: float) -> None:
        super()._close_begin(is_initiator, now)
        period = 3 * self._loss.get_probe_timeout()
        self._close_at = now + min(period, LONGEST_CLOSING)

    def _kinds(self, settings: LinkSettings) -> tuple[tuple[StreamKind, int], ...]:
        """Both kinds of streams, and how many of them the peer may have open at once."""
        return (self._uni, settings.max_streams_uni), (self._bidi, settings.max_streams_bidi)

    # What the link asks

    @property
    def footprint(self) -> int:
        """Memory that the peer makes us hold, about, in bytes, while the connection is not freed.

        Nothing is walked over but the few packet number spaces and CRYPTO streams: the rest is
        counted as it comes and goes. The sizes of objects are measured; tests hold them to what
        ``tracemalloc`` says.
        """
        packets = sum(len(space.sent_packets) for space in self._spaces.values())
        handshake = 0
        if not self._handshake_confirmed:
            for stream in self._crypto_streams.values():
                assert isinstance(stream.receiver, CryptoReceiver)
                handshake += stream.receiver.held
            handshake += self._local_max_data.used  # of early data, which waits for the end of it
        ranges = self.ranges + self._uni.ranges + self._bidi.ranges
        return (
            CONNECTION_BYTES
            + handshake
            + STREAM_BYTES * self._table.halves
            + RANGE_BYTES * ranges
            + self.scattered
            + PACKET_BYTES * packets
            + self.unacknowledged
            + self.queued_datagrams
            + DATAGRAM_BYTES * self.datagrams_waiting
        )

    def grant_streams(self, settings: LinkSettings) -> None:
        """Let the peer have as many streams open as they say; never fewer than before."""
        for kind, streams in self._kinds(settings):
            kind.grant(streams)

    def consume(self, stream_id: int, count: int) -> None:
        """Let ``count`` more bytes come: on the connection, and on the stream if it lasts.

        Call ``datagrams_to_send`` afterwards; the new limits travel in the next packet.
        """
        limit = self._local_max_data
        outstanding = limit.used - self._consumed
        if count > outstanding:
            _logger.warning("credit for %d bytes although %d are held", count, outstanding)
            count = outstanding
        self._consumed += count
        self._raise_connection_limit()
        stream = self._table.get(stream_id)
        if stream is None or stream.receiver.is_finished:
            return
        stream.consumed += count
        target = stream.consumed + self._stream_window
        if 2 * (target - stream.max_stream_data_local) >= self._stream_window:
            stream.max_stream_data_local = target
            self._due[stream_id] = stream

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        datagrams = super().datagrams_to_send(now)
        self._forget_answers()
        return datagrams

    def _forget_answers(self) -> None:
        """Let go of packets that only acknowledge, but for the last ones."""
        sent = self._spaces[Epoch.ONE_RTT].sent_packets if self._spaces else {}
        if len(sent) > self._look_at:
            answers = [
                number
                for number, packet in sent.items()
                if not packet.in_flight and number != self.probe_packet
            ]
            for number in answers[: -MOST_ANSWERS // 2]:
                del sent[number]
            self._look_at = 2 * max(len(sent), MOST_ANSWERS)

    def hold_back(self, on: bool) -> None:
        """Give no more credit for bytes, until it is off again: the peer comes to rest."""
        self._held_back = on
        self._raise_connection_limit()

    # What the streams of this connection tell it

    def release(self, count: int) -> None:
        """Bytes that will never reach the application no longer count as held."""
        self._consumed += count
        self._raise_connection_limit()

    def scatter(self, ranges: int, size: int) -> None:
        self.ranges += ranges
        self.scattered += size
        if self.ranges > MAX_CONNECTION_RANGES:
            raise QuicConnectionError(
                error_code=QuicErrorCode.INTERNAL_ERROR,
                frame_type=QuicFrameType.STREAM_BASE,
                reason_phrase=f"{self.ranges} ranges of all streams wait",
            )

    def _raise_connection_limit(self) -> None:
        if self._held_back:
            return
        target = self._consumed + self._connection_window
        if 2 * (target - self._local_max_data.value) >= self._connection_window:
            self._local_max_data.value = target

    # Limits are written

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        self._write_limit(builder, self._local_max_data)
        for kind in (self._uni, self._bidi):
            if kind.due:
                self._write_limit(builder, kind.limit)

    @property
    def _limits_due(self) -> bool:
        """The peer is to be told a new limit of the connection."""
        return (
            self._local_max_data.value != self._local_max_data.sent
            or self._uni.due
            or self._bidi.due
        )

    def _write_limit(self, builder: QuicPacketBuilder, limit: Limit) -> None:
        if limit.value == limit.sent:
            return
        buf = builder.start_frame(
            limit.frame_type,
            capacity=CONNECTION_LIMIT_FRAME_CAPACITY,
            handler=self._on_connection_limit_delivery,
            handler_args=(limit,),
        )
        buf.push_uint_var(limit.value)
        limit.sent = limit.value

    def _write_stream_limits(
        self, builder: QuicPacketBuilder, space: QuicPacketSpace, stream: QuicStream
    ) -> None:
        # ``StreamTable.values`` offers only the streams in ``_due``.
        assert isinstance(stream, Stream)
        if not stream.receiver.is_finished:
            buf = builder.start_frame(
                QuicFrameType.MAX_STREAM_DATA,
                capacity=MAX_STREAM_DATA_FRAME_CAPACITY,
                handler=self._on_max_stream_data_delivery,
                handler_args=(stream,),
            )
            buf.push_uint_var(stream.number)
            buf.push_uint_var(stream.max_stream_data_local)
            stream.max_stream_data_local_sent = stream.max_stream_data_local
        self._due.pop(stream.number, None)

    def _on_max_stream_data_delivery(self, delivery: QuicDeliveryState, stream: QuicStream) -> None:
        assert isinstance(stream, Stream)
        if delivery != QuicDeliveryState.ACKED and not stream.receiver.is_finished:
            self._due[stream.number] = stream
