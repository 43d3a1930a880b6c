"""The frames ahead of streams in the first packet of a run, as aioquic's methods write them.

Those methods ask a ``QuicPacketBuilder`` for room and write into its buffer; that builder seals
packets, too, and takes care of everything that can be in a datagram. This one gathers frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioquic._buffer import Buffer
from aioquic.quic.packet import NON_ACK_ELICITING_FRAME_TYPES, NON_IN_FLIGHT_FRAME_TYPES
from aioquic.quic.packet_builder import QuicPacketBuilderStop, QuicSentPacket

from aqueduct_core.transport.aioquic.sent_packets import StreamPacket


class ControlFrames:
    """Stands for the packet builder where frames are written that are not of streams.

    Args:
        capacity: bytes that it holds at most.
        flight: the same, of frames that count towards what is in flight (RFC 9002 section 2).

    ``overflown``: for whoever writes, a frame found no room.
    """

    quic_logger_frames = None

    def __init__(self, capacity: int, flight: int, packet_number: int) -> None:
        self.overflown = False
        self.packet_number = packet_number
        self._handlers: list[tuple[Callable[..., None], Any]] = []
        self._in_flight = False
        self._is_ack_eliciting = False
        self._flight = flight
        self._buffer = Buffer(capacity=capacity)

    @property
    def data(self) -> bytes:
        return self._buffer.data

    @property
    def remaining_buffer_space(self) -> int:
        return self._buffer.capacity - self._buffer.tell()

    def start_frame(
        self,
        frame_type: int,
        capacity: int = 1,
        handler: Callable[..., None] | None = None,
        handler_args: Sequence[Any] = (),
    ) -> Buffer:
        """Begin a frame of at most ``capacity`` bytes; what comes behind its type goes into the
        buffer.

        Raises:
            QuicPacketBuilderStop: it may not fit; nothing was written.
        """
        in_flight = frame_type not in NON_IN_FLIGHT_FRAME_TYPES
        if self.remaining_buffer_space < capacity or (
            in_flight and self._flight - self._buffer.tell() < capacity
        ):
            raise QuicPacketBuilderStop
        self._buffer.push_uint_var(frame_type)
        self._in_flight |= in_flight
        self._is_ack_eliciting |= frame_type not in NON_ACK_ELICITING_FRAME_TYPES
        if handler is not None:
            self._handlers.append((handler, handler_args))
        return self._buffer

    def packet(self, streams: StreamPacket) -> QuicSentPacket:
        """The entry of the packet that holds these frames, and those of ``streams`` behind them."""
        return QuicSentPacket(
            epoch=streams.epoch,
            in_flight=self._in_flight or bool(streams.frames),
            is_ack_eliciting=self._is_ack_eliciting or bool(streams.frames),
            is_crypto_packet=False,
            packet_number=streams.packet_number,
            packet_type=streams.packet_type,
            sent_time=streams.sent_time,
            sent_bytes=streams.sent_bytes,
            delivery_handlers=self._handlers + streams.delivery_handlers,
        )
