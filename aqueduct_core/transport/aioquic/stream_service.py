"""aioquic's connection, made to visit only streams that have work, of either kind and side.

Stock aioquic walks all open streams for each packet that it builds, and makes an object of each
stream that a peer opens by skipping over its number. Here a stream stands in ``_order`` while it
has something to send or to repeat, those that have ended are discarded apart from any packet, and
what was skipped over are ranges of numbers.
"""

from __future__ import annotations

from bisect import insort
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnectionState, QuicNetworkPath, QuicReceiveContext
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.quic.stream import QuicStream
from aioquic.tls import Epoch

from aqueduct_core.engine.streams import STEP, is_bidirectional, is_client
from aqueduct_core.transport.aioquic.connection import CreditedConnection
from aqueduct_core.transport.aioquic.service_order import ServiceOrder
from aqueduct_core.transport.aioquic.streams import (
    NO_RECEIVER,
    NO_SENDER,
    Stream,
    StreamKind,
    StreamReceiver,
    StreamSender,
)
from aqueduct_core.transport.settings import LinkSettings


class StreamConnection(CreditedConnection):
    """A ``CreditedConnection`` that opens streams of both kinds and serves those with work."""

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        settings: LinkSettings,
        most_streams: int | None = None,
        **start: Any,
    ) -> None:
        self._order = ServiceOrder(self)
        self._ended: dict[int, Stream] = {}
        super().__init__(
            configuration=configuration, settings=settings, most_streams=most_streams, **start
        )

    def rest(self, now: float) -> bool:
        """Instead of ``datagrams_to_send``: do nothing, if there is nothing at all to send.

        To find that out by building an empty packet costs more than receiving several. False
        when there is something, or when only building a packet can tell.
        """
        if self._ended:
            self._discard_ended()
        if (
            not self._handshake_confirmed
            or self._state is not QuicConnectionState.CONNECTED
            or len(self._order)
            or self._due
            or self._close_pending
            or self._datagrams_pending
            or self._ping_pending
            or self._probe_pending
            or self._handshake_done_pending
            or self._retire_connection_ids
            or self._streams_blocked_pending
            or self._remote_preferred_address is not None
            or self._limits_due
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

    def wake(self, stream_id: int) -> None:
        """The stream has something to send, to repeat, or to be discarded for."""
        stream = self._table.get(stream_id)
        if stream is None:
            return
        if stream.is_finished:
            self._ended[stream_id] = stream
        elif not stream.is_blocked:
            self._order.add(stream)

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        self._discard_ended()
        return super().datagrams_to_send(now)

    def _discard_ended(self) -> None:
        """Forget streams that are over; the peer may open another one for each of its own (RFC 9000
        section 4.6)."""
        for stream_id in self._ended:
            self._table.pop(stream_id)
            if is_client(stream_id) != self._is_client:
                self._kind(stream_id).limit.value += 1
        self._ended.clear()

    def send_stream_data(
        self, stream_id: int, data: bytes, end_stream: bool = False, urgent: bool = False
    ) -> None:
        """Write on a stream of ours, or on a bidirectional one of the peer; what the peer does not
        want any more on one of its own is dropped. ``urgent``: with all that was written on it
        before, ahead of what other streams have to send."""
        stream = self._table.get(stream_id)
        if stream is None:
            if self._was_opened_by_peer(stream_id):
                return
            stream = self._get_or_create_stream_for_send(stream_id)
        elif is_client(stream_id) != self._is_client and stream.sender.abandoned:
            return
        if urgent and isinstance(stream, Stream):
            self._order.hurry(stream, stream.sender._buffer_stop + len(data))
        stream.sender.write(data, end_stream)

    def sender_of(self, stream_id: int) -> StreamSender | None:
        """What is sent on a stream; None: it is over, was given up, or we may not write it."""
        stream = self._table.get(stream_id)
        if stream is None or not isinstance(stream.sender, StreamSender):
            return None
        return None if stream.sender.abandoned else stream.sender

    def reset_stream(self, stream_id: int, error_code: int) -> None:
        """Give up a stream of ours, also one that was skipped over and never written: higher ones
        have opened it (RFC 9000 section 2.1), so that it counts at the peer until it ends."""
        ours = is_client(stream_id) == self._is_client
        if ours and stream_id // STEP in self._kind(stream_id).skipped:
            self._get_or_create_stream_for_send(stream_id)
        super().reset_stream(stream_id, error_code)

    def stop_stream(self, stream_id: int, error_code: int) -> None:
        """Ask the peer to end what it sends on a stream.

        Raises ValueError where it has ended, or there never was any.
        """
        stream = self._table.get(stream_id)
        if stream is not None and stream.receiver.is_finished:
            raise ValueError(f"stream {stream_id} has ended")
        super().stop_stream(stream_id, error_code)

    # Streams come into being

    def _kind(self, stream_id: int) -> StreamKind:
        return self._bidi if is_bidirectional(stream_id) else self._uni

    def _was_opened_by_peer(self, stream_id: int) -> bool:
        """It is a bidirectional one of the peer that is over, or that was skipped over."""
        if not is_bidirectional(stream_id) or is_client(stream_id) == self._is_client:
            return False
        return stream_id // STEP < self._bidi.limit.used

    def _get_or_create_stream(self, frame_type: int, stream_id: int) -> QuicStream:
        stream: Stream | None = self._table.get(stream_id)
        if stream is not None:
            return stream
        if is_client(stream_id) == self._is_client:
            return super()._get_or_create_stream(frame_type, stream_id)
        self._kind(stream_id).begin(stream_id // STEP, frame_type)
        both = is_bidirectional(stream_id)
        return self._table.open(
            Stream(
                stream_id,
                receiver=StreamReceiver(self, stream_id),
                sender=StreamSender(self, stream_id) if both else NO_SENDER,
                local=self._stream_window,
                remote=self._remote_max_stream_data_bidi_local if both else 0,
            )
        )

    def _get_or_create_stream_for_send(self, stream_id: int) -> QuicStream:
        stream: Stream | None = self._table.get(stream_id)
        if is_client(stream_id) != self._is_client:
            if stream is None or not is_bidirectional(stream_id):
                raise ValueError(f"stream {stream_id} is none that we may write")
            return stream
        if stream is not None:
            return stream
        self._begin(stream_id)
        both = is_bidirectional(stream_id)
        stream = self._table.open(
            Stream(
                stream_id,
                receiver=StreamReceiver(self, stream_id) if both else NO_RECEIVER,
                sender=StreamSender(self, stream_id),
                local=self._stream_window if both else 0,
                remote=self._window_of_ours(stream_id),
            )
        )
        if stream_id // STEP >= self._streams_of_ours(stream_id):
            stream.is_blocked = True
            insort(self._blocked(stream_id), stream, key=lambda other: other.stream_id or 0)
            self._streams_blocked_pending = True
        return stream

    def _begin(self, stream_id: int) -> None:
        """Our engine uses a stream of ours that is not there; ValueError: it was."""
        both = is_bidirectional(stream_id)
        following = self._local_next_stream_id_bidi if both else self._local_next_stream_id_uni
        skipped = self._kind(stream_id).skipped
        if stream_id < following:
            if not skipped.remove(stream_id // STEP, stream_id // STEP + 1):
                raise ValueError(f"stream {stream_id} has ended")
            return
        skipped.add(following // STEP, stream_id // STEP)
        if both:
            self._local_next_stream_id_bidi = stream_id + STEP
        else:
            self._local_next_stream_id_uni = stream_id + STEP

    def _streams_of_ours(self, stream_id: int) -> int:
        """How many of that kind the peer lets us open in all."""
        both = is_bidirectional(stream_id)
        return self._remote_max_streams_bidi if both else self._remote_max_streams_uni

    def _window_of_ours(self, stream_id: int) -> int:
        """Bytes that we may send at first on a stream of that kind that we open."""
        both = is_bidirectional(stream_id)
        return (
            self._remote_max_stream_data_bidi_remote if both else self._remote_max_stream_data_uni
        )

    def _blocked(self, stream_id: int) -> list[QuicStream]:
        """Streams of that kind that we may not open yet."""
        return (
            self._streams_blocked_bidi if is_bidirectional(stream_id) else self._streams_blocked_uni
        )

    # Frames that let streams go on

    def _handle_max_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Any
    ) -> None:
        super()._handle_max_data_frame(context, frame_type, buf)
        if self._order.starved and not self.out_of_credit:
            self._order.feed()

    def _handle_max_stream_data_frame(
        self, context: QuicReceiveContext, frame_type: int, buf: Any
    ) -> None:
        start = buf.tell()
        stream_id = buf.pull_uint_var()
        buf.seek(start)
        super()._handle_max_stream_data_frame(context, frame_type, buf)
        self.wake(stream_id)

    def _unblock_streams(self, is_unidirectional: bool) -> None:
        blocked = self._streams_blocked_uni if is_unidirectional else self._streams_blocked_bidi
        count = 0
        for stream in blocked:
            assert isinstance(stream, Stream)
            if stream.number // STEP >= self._streams_of_ours(stream.number):
                break
            stream.is_blocked = False
            stream.max_stream_data_remote = self._window_of_ours(stream.number)
            self.wake(stream.number)
            count += 1
        del blocked[:count]
        if not self._streams_blocked_uni and not self._streams_blocked_bidi:
            self._streams_blocked_pending = False

    def _start_over(self) -> None:
        """Every stream of ours begins anew under its number and the limits of now (AQ-0RTT-2)."""
        self._remote_max_data_used = 0
        self._order.clear()
        self._streams_blocked_uni.clear()
        self._streams_blocked_bidi.clear()
        for stream_id in sorted(self._table):
            stream = self._table[stream_id]
            stream.sender.rewind()
            if isinstance(stream.receiver, StreamReceiver):
                stream.receiver.rewind()
            stream.max_stream_data_remote = self._window_of_ours(stream_id)
            stream.is_blocked = stream_id // STEP >= self._streams_of_ours(stream_id)
            if stream.is_blocked:
                self._blocked(stream_id).append(stream)
            self.wake(stream_id)
        self._streams_blocked_pending = bool(
            self._streams_blocked_uni or self._streams_blocked_bidi
        )

    def _raise_limits(self) -> None:
        """Streams of ours that are open learn of larger windows than they began with."""
        for stream_id, stream in self._table.items():
            if not stream.is_blocked:
                stream.max_stream_data_remote = max(
                    stream.max_stream_data_remote, self._window_of_ours(stream_id)
                )
            self.wake(stream_id)
        self._order.starved.clear()

    # Packets are built

    def _write_application(
        self, builder: QuicPacketBuilder, network_path: QuicNetworkPath, now: float
    ) -> None:
        self._order.begin(builder)
        try:
            super()._write_application(builder, network_path, now)
        finally:
            self._order.end()

    @property
    def out_of_credit(self) -> bool:
        return self._remote_max_data_used >= self._remote_max_data

    @property  # type: ignore[override]  # it is walked as a list is
    def _streams_queue(self) -> ServiceOrder:
        return self._order

    @_streams_queue.setter
    def _streams_queue(self, left: object) -> None:
        """aioquic has walked the order for one packet, and would go on with those that are left."""
        self._order.replaced()
