"""aioquic's connection, made to follow consumption and to visit only streams that have work.

What differs from the stock class:

* **Credit follows consumption.** Stock aioquic doubles its windows by itself, so nothing that an
  application does holds a peer back. Here limit = consumed + window, for a stream and for the
  connection, and only ``consume`` moves it.
* **Only streams with work are visited.** Stock aioquic walks all open streams for each packet
  that it builds. Here a stream enters ``_ready`` when it has something to send, to repeat or to
  discard, and ``_due`` when its limit has to be told.
* **Memory.** Streams that a peer opens only by skipping over their numbers are ranges until they
  are used, what it sends with holes is kept in a bounded number of ranges, and of packets that
  only acknowledge a bounded number is remembered.
* **Closing is short.** However slow the path looks, the closing period is bounded.
* **Counting.** ``unacknowledged`` is kept as bytes come and go, never computed by a walk.
"""

from __future__ import annotations

import logging
from bisect import insort
from collections import deque
from collections.abc import Callable
from typing import Any, TypedDict, Unpack

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import (
    CONNECTION_LIMIT_FRAME_CAPACITY,
    MAX_STREAM_DATA_FRAME_CAPACITY,
    Limit,
    QuicConnectionError,
    QuicConnectionState,
    QuicNetworkPath,
    QuicReceiveContext,
)
from aioquic.quic.packet import QuicErrorCode, QuicFrameType
from aioquic.quic.packet_builder import QuicDeliveryState, QuicPacketBuilder
from aioquic.quic.recovery import QuicPacketSpace
from aioquic.quic.stream import QuicStream, StreamFinishedError
from aioquic.tls import Epoch, SessionTicketFetcher, SessionTicketHandler

from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.transport.aioquic.packet_limits import LimitedConnection
from aqueduct_core.transport.aioquic.streams import (
    MAX_CONNECTION_RANGES,
    NO_RECEIVER,
    NO_SENDER,
    CryptoReceiver,
    Stream,
    StreamReceiver,
    StreamSender,
    StreamTable,
)

STREAMS_PER_ROUND = 128
"""Ready streams offered to the packet builder at once: enough to fill a dozen packets with tiny
messages, few enough that rebuilding aioquic's service order for each packet stays cheap."""

LARGEST_OVERHEAD = 19
"""Bytes of a STREAM frame beside its data: type, length, stream and offset. Where no more are left
of a flight, no stream is asked for what it has."""

LEAST_FLIGHT = 64
"""Bytes that the congestion window has left below which no stream is asked. To find out of each of
many that it cannot send costs as much as to send, and a peer that acknowledges nothing keeps its
window full for as long as it likes."""

LONGEST_CLOSING = 3.0
"""Seconds that a closed connection lingers at most. RFC 9000 §10.2 asks for three probe timeouts,
and one of these is half a minute after a process stood still for twenty seconds; by then nobody
waits for the answer any more, but somebody may for the end of a listener."""

MOST_ANSWERS = 256
"""Sent packets that only acknowledge and are remembered, about. A peer that sends tiny packets and
acknowledges none of ours would have one kept for each, for as long as it likes. They are kept to
forget ranges that the peer knows as received; of these there are 64 at most anyway."""

_logger = logging.getLogger(__name__)


class Start(TypedDict, total=False):
    """What a ``QuicConnection`` starts from besides its configuration."""

    original_destination_connection_id: bytes | None
    retry_source_connection_id: bytes | None
    session_ticket_fetcher: SessionTicketFetcher | None
    session_ticket_handler: SessionTicketHandler | None
    token_handler: Callable[[bytes], None] | None


class CreditedConnection(LimitedConnection):
    """A ``QuicConnection`` whose windows follow ``consume``.

    Args:
        max_streams_uni: unidirectional streams that the peer may have open at once. It may open
            no bidirectional ones.
    """

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        max_streams_uni: int,
        **start: Unpack[Start],
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
        self._stream_window = configuration.max_stream_data
        self._connection_window = configuration.max_data
        self._consumed = 0
        self._most_streams = max_streams_uni
        self._look_at = MOST_ANSWERS  # remembered packets, to look for those that only acknowledge
        self._implicit = RangeSet()  # streams of the peer that it skipped over
        self._skipped = RangeSet()  # ours
        self._ready: deque[Stream] = deque()
        self._starved: list[Stream] = []
        self._due: dict[int, Stream] = {}
        self._table = StreamTable(self._due)
        self._streams = self._table
        for limit, value in (
            (self._local_max_streams_uni, max_streams_uni),
            (self._local_max_streams_bidi, 0),
        ):
            limit.value = limit.sent = value

    def _initialize(self, peer_cid: bytes) -> None:
        super()._initialize(peer_cid)
        for stream in self._crypto_streams.values():
            stream.receiver = CryptoReceiver()

    def _close_begin(self, is_initiator: bool, now: float) -> None:
        super()._close_begin(is_initiator, now)
        period = 3 * self._loss.get_probe_timeout()
        self._close_at = now + min(period, LONGEST_CLOSING)

    # What the link asks

    @property
    def open_streams(self) -> int:
        return len(self._streams)

    def rest(self, now: float) -> bool:
        """Instead of ``datagrams_to_send``: do nothing, if there is nothing at all to send.

        To find that out by building an empty packet costs more than receiving several. False
        when there is something, or when only building a packet can tell.
        """
        if (
            not self._handshake_confirmed
            or self._state is not QuicConnectionState.CONNECTED
            or self._ready
            or self._due
            or self._close_pending
            or self._datagrams_pending
            or self._ping_pending
            or self._probe_pending
            or self._handshake_done_pending
            or self._retire_connection_ids
            or self._streams_blocked_pending
            or self._remote_preferred_address is not None
            or self._local_max_data.value != self._local_max_data.sent
            or self._streams_limit_due
            or len(self._network_paths) != 1
        ):
            return False
        path = self._network_paths[0]
        ack_at = self._spaces[Epoch.ONE_RTT].ack_at
        if (
            (ack_at is not None and ack_at <= now)
            or not path.is_validated
            or path.remote_challenges
            or not self._crypto_streams[Epoch.ONE_RTT].sender.buffer_is_empty
            or not all(identifier.was_sent for identifier in self._host_cids)
        ):
            return False
        self._pacing_at = None
        return True

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
        sent = self._spaces[Epoch.ONE_RTT].sent_packets if self._spaces else {}
        if len(sent) > self._look_at:
            answers = [number for number, packet in sent.items() if not packet.in_flight]
            for number in answers[: -MOST_ANSWERS // 2]:
                del sent[number]
            self._look_at = 2 * max(len(sent), MOST_ANSWERS)
        return datagrams

    def grant_streams(self, count: int) -> None:
        """Let the peer have up to ``count`` streams open; never fewer than before."""
        self._local_max_streams_uni.value += max(0, count - self._most_streams)
        self._most_streams = max(count, self._most_streams)

    def hold_back(self, on: bool) -> None:
        """Give no more credit for bytes, until it is off again: the peer comes to rest."""
        self._held_back = on
        self._raise_connection_limit()

    # What the streams of this connection tell it

    def wake(self, stream_id: int) -> None:
        stream = self._table.get(stream_id)
        if stream is not None and not stream.queued:
            stream.queued = True
            self._ready.append(stream)

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

    # Streams come into being

    def _get_or_create_stream(self, frame_type: int, stream_id: int) -> QuicStream:
        stream = self._streams.get(stream_id)
        if stream is not None:
            return stream
        if not (stream_id & 2) or (stream_id & 1 == 0) == self._is_client:
            return super()._get_or_create_stream(frame_type, stream_id)
        index = stream_id // 4
        limit = self._local_max_streams_uni
        if index < limit.used:
            if not self._implicit.remove(index, index + 1):
                raise StreamFinishedError
        elif index >= limit.value:
            raise QuicConnectionError(
                error_code=QuicErrorCode.STREAM_LIMIT_ERROR,
                frame_type=frame_type,
                reason_phrase="Too many streams open",
            )
        else:
            # Opening a stream opens all lower ones of its kind (RFC 9000 section 2.1).
            self._implicit.add(limit.used, index)
            limit.used = index + 1
        stream = self._streams[stream_id] = Stream(
            stream_id,
            receiver=StreamReceiver(self, stream_id),
            sender=NO_SENDER,
            local=self._stream_window,
        )
        return stream

    def _get_or_create_stream_for_send(self, stream_id: int) -> QuicStream:
        if not (stream_id & 2) or (stream_id & 1 == 0) != self._is_client:
            raise ValueError(f"stream {stream_id} is not a unidirectional stream of ours")
        stream = self._streams.get(stream_id)
        if stream is not None:
            return stream
        if stream_id < self._local_next_stream_id_uni:
            # An engine numbers its streams as it opens them, and may write to them in another
            # order: what is urgent goes first.
            if not self._skipped.remove(stream_id // 4, stream_id // 4 + 1):
                raise ValueError(f"stream {stream_id} has ended")
        else:
            self._skipped.add(self._local_next_stream_id_uni // 4, stream_id // 4)
            self._local_next_stream_id_uni = stream_id + 4
        stream = self._streams[stream_id] = Stream(
            stream_id,
            receiver=NO_RECEIVER,
            sender=StreamSender(self, stream_id),
            remote=self._remote_max_stream_data_uni,
        )
        if stream_id // 4 >= self._remote_max_streams_uni:
            stream.is_blocked = True
            insort(self._streams_blocked_uni, stream, key=lambda other: other.stream_id or 0)
            self._streams_blocked_pending = True
        return stream

    # Frames that let streams go on

    def _handle_max_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Any
    ) -> None:
        super()._handle_max_data_frame(context, frame_type, buf)
        if self._starved and not self._out_of_credit:
            starved, self._starved = self._starved, []
            for stream in starved:
                self.wake(stream.number)

    def _handle_max_stream_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Any
    ) -> None:
        start = buf.tell()
        stream_id = buf.pull_uint_var()
        buf.seek(start)
        super()._handle_max_stream_data_frame(context, frame_type, buf)
        self.wake(stream_id)

    def _unblock_streams(self, is_unidirectional: bool) -> None:
        if not is_unidirectional:
            super()._unblock_streams(is_unidirectional)
            return
        blocked = self._streams_blocked_uni
        count = 0
        for stream in blocked:
            assert isinstance(stream, Stream)
            if stream.number // 4 >= self._remote_max_streams_uni:
                break
            stream.is_blocked = False
            stream.max_stream_data_remote = self._remote_max_stream_data_uni
            self.wake(stream.number)
            count += 1
        del blocked[:count]
        if not blocked and not self._streams_blocked_bidi:
            self._streams_blocked_pending = False

    # Packets are built

    def _write_application(
        self, builder: QuicPacketBuilder, network_path: QuicNetworkPath, now: float
    ) -> None:
        ready = self._ready
        left = len(ready)
        most = builder.max_flight_bytes
        full = most is not None and most - builder._flight_bytes < LEAST_FLIGHT
        while True:
            count = min(left, STREAMS_PER_ROUND)
            left -= count
            offered: list[Any] = [ready.popleft() for _ in range(count)]
            if full:
                ready.extend(stream for stream in offered if not stream.is_finished)
                offered = [stream for stream in offered if stream.is_finished]
            self._streams_queue = offered
            try:
                super()._write_application(builder, network_path, now)
            finally:
                for stream in self._streams_queue:
                    assert isinstance(stream, Stream)
                    self._put_back(stream)
                self._streams_queue = []
            if left <= 0 or self._pacing_at is not None or builder._packet_crypto is None:
                return  # no packet was begun: it is not its time, or there are no keys yet
            if builder.remaining_flight_space <= LARGEST_OVERHEAD:
                return

    def _put_back(self, stream: Stream) -> None:
        """Queue a served stream again, or park it until something wakes it."""
        sender = stream.sender
        stopping = stream.receiver.stop_pending or sender.reset_pending
        if not (stopping or stream.is_finished):
            if stream.is_blocked or sender.buffer_is_empty:
                stream.queued = False
                return
            offset = sender.offers if isinstance(sender, StreamSender) else None
            if offset is not None:
                if offset >= stream.max_stream_data_remote:
                    stream.queued = False
                    return
                if offset >= sender.highest_offset and self._out_of_credit:
                    stream.queued = False
                    self._starved.append(stream)
                    return
        self._ready.append(stream)

    @property
    def _out_of_credit(self) -> bool:
        return self._remote_max_data_used >= self._remote_max_data

    def _write_connection_limits(self, builder: QuicPacketBuilder, space: QuicPacketSpace) -> None:
        self._write_limit(builder, self._local_max_data)
        if self._streams_limit_due:
            self._write_limit(builder, self._local_max_streams_uni)

    @property
    def _streams_limit_due(self) -> bool:
        """MAX_STREAMS goes in batches: once the peer has fewer streams left than it would gain,
        and again after the last one told was lost (then ``sent`` is 0)."""
        streams = self._local_max_streams_uni
        return streams.sent - streams.used < streams.value - streams.sent

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
