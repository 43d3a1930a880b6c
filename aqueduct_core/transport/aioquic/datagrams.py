"""aioquic's connection, made to tell what becomes of datagrams and to send streams beside them.

Stock aioquic fills packets with datagrams as long as there are any, so that no stream, and no
acknowledgement of a message, would leave beside a flood of them. Here they take turns where both
have something to send: datagrams begin one packet of two.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicNetworkPath
from aioquic.quic.packet import QuicFrameType
from aioquic.quic.packet_builder import (
    QuicDeliveryState,
    QuicPacketBuilder,
    QuicPacketBuilderStop,
)
from aioquic.quic.recovery import QuicPacketSpace

from aqueduct_core.transport.aioquic.observed import ObservedConnection

FRAME_OVERHEAD = 1 + 4
"""Type and longest length of a DATAGRAM frame."""


class _KeptForDatagram(Exception):
    """It is a datagram's turn, and the congestion window has no room for the whole of it: streams,
    which can use any room, do not take it piece by piece, or its turn would never come."""


class DatagramConnection(ObservedConnection):
    """A ``QuicConnection`` whose datagrams have tokens, which rise from one to the next.

    ``keeps_outcomes``: keep what becomes of each datagram for ``datagram_outcomes``; to be set
    before the first one.
    """

    def __init__(self, *, configuration: QuicConfiguration, **start: Any) -> None:
        super().__init__(configuration=configuration, **start)
        self.keeps_outcomes = False
        self.queued_datagrams = 0
        """Bytes of the datagrams that have not left."""
        self.datagrams_left: int | None = None
        """The token of the last datagram that has left."""
        self._tokens: deque[int] = deque()  # of ``_datagrams_pending``
        self._outcomes: list[tuple[int, bool]] = []
        self._begun: int | None = None  # the last packet, if a datagram began it
        self._yielded = False

    @property
    def datagrams_wait(self) -> bool:
        """There are datagrams that have not left."""
        return bool(self._tokens)

    @property
    def datagrams_waiting(self) -> int:
        """How many have not left."""
        return len(self._tokens)

    def send_datagram(self, data: bytes, token: int) -> None:
        self.queued_datagrams += len(data)
        self._tokens.append(token)
        self.send_datagram_frame(data)

    def datagrams_to_send(self, now: float) -> list[tuple[bytes, Any]]:
        """Datagrams that wait leave before a connection is closed, as far as there is room: they
        may say why."""
        parting: list[tuple[bytes, Any]] = []
        if self._close_pending and self._tokens and self._handshake_complete:
            self._close_pending = False
            parting = super().datagrams_to_send(now)
            self._close_pending = True
        return parting + super().datagrams_to_send(now)

    def drop_datagrams(self, most: int) -> list[int]:
        """Take those out of the queue that have more than ``most`` bytes, as they would stop all
        behind them for good; their tokens."""
        pending, tokens = self._datagrams_pending, self._tokens
        if all(len(data) <= most for data in pending):
            return []
        queue = list(zip(pending, tokens, strict=True))
        pending.clear()
        tokens.clear()
        dropped = []
        for data, token in queue:
            if len(data) <= most:
                pending.append(data)
                tokens.append(token)
            else:
                self.queued_datagrams -= len(data)
                dropped.append(token)
        return dropped

    def datagram_outcomes(self) -> list[tuple[int, bool]]:
        """Take the tokens of datagrams that were acknowledged (True) or lost."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def discard(self, space: QuicPacketSpace) -> None:
        """Forget packets that will never be acknowledged; the datagrams in them are lost."""
        for packet in space.sent_packets.values():
            for handler, arguments in packet.delivery_handlers:
                if handler == self._on_datagram_delivery:
                    handler(QuicDeliveryState.LOST, *arguments)
        self._loss.discard_space(space)

    def _write_application(
        self, builder: QuicPacketBuilder, network_path: QuicNetworkPath, now: float
    ) -> None:
        try:
            while True:
                self._yielded = False
                super()._write_application(builder, network_path, now)
                if not self._yielded or self._pacing_at is not None or not builder.packet_is_empty:
                    return
                # Datagrams made way for streams that had nothing to send after all.
        except _KeptForDatagram:
            raise QuicPacketBuilderStop from None

    def _write_datagram_frame(
        self, builder: QuicPacketBuilder, data: bytes, frame_type: QuicFrameType
    ) -> bool:
        """One DATAGRAM frame, or none in a packet that is the streams'."""
        number = builder.packet_number
        if self._begun is not None and self._begun != number and self._streams_queue:
            self._begun = None
            self._yielded = True
            raise QuicPacketBuilderStop
        size = FRAME_OVERHEAD + len(data)
        if builder.remaining_flight_space < size <= builder.remaining_buffer_space:
            raise _KeptForDatagram
        written = super()._write_datagram_frame(builder, data, frame_type)
        self._begun = number
        self.queued_datagrams -= len(data)
        self.datagrams_left = token = self._tokens.popleft()
        if self.keeps_outcomes:
            assert builder._packet is not None
            builder._packet.delivery_handlers.append((self._on_datagram_delivery, (token,)))
        return written

    def _on_datagram_delivery(self, delivery: QuicDeliveryState, token: int) -> None:
        self._outcomes.append((token, delivery is QuicDeliveryState.ACKED))
