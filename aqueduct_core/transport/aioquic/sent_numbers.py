"""aioquic's connection, made to refuse acknowledgements of packets that were never sent.

Who acknowledges what it has not received makes a sender believe in a path that is fast and loses
nothing, and be a burden to the network (RFC 9000 §21.4). aioquic takes such an ACK frame as it
takes any other, and its idea of the largest acknowledged packet goes wrong with it. RFC 9000 §13.1
has a connection end for it.

aioquic counts the packets of all spaces together, so the numbers of a space are not those from
zero: each space knows from which number to which its packets were. What lies between two of them
in another space, as in a handshake that repeats its flights, is taken as sent: an acknowledgement
of it changes nothing. Once the handshake is confirmed, all packets are of one space, and nothing
is noted for any of them.
"""

from __future__ import annotations

from typing import Any

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnectionError, QuicNetworkPath, QuicReceiveContext
from aioquic.quic.packet import QuicErrorCode
from aioquic.quic.packet_builder import QuicPacketBuilder
from aioquic.tls import Epoch

from aqueduct_core.primitives.ranges import Range
from aqueduct_core.transport.aioquic.datagrams import DatagramConnection


class NumberedConnection(DatagramConnection):
    """A ``DatagramConnection`` that is closed with PROTOCOL_VIOLATION by an ACK frame for a number
    that it has not used in that packet number space."""

    def __init__(self, *, configuration: QuicConfiguration, **start: Any) -> None:
        self._sent_in: dict[Epoch, Range] = {}
        super().__init__(configuration=configuration, **start)

    def _flush_builder(
        self,
        builder: QuicPacketBuilder,
        network_path: QuicNetworkPath,
        peer_cid: bytes,
        now: float,
    ) -> list[tuple[bytes, Any]]:
        first = self._packet_number
        out = super()._flush_builder(builder, network_path, peer_cid, now)
        if not self._handshake_confirmed or Epoch.ONE_RTT not in self._sent_in:
            self._note_numbers(first, self._packet_number)
        return out

    def _note_numbers(self, first: int, stop: int) -> None:
        """Packets ``first`` to before ``stop`` were built: an Initial one, then of the Handshake,
        then of the application's space, which are still remembered; a client may have forgotten
        the first ones for sending the second."""
        for epoch in (Epoch.ONE_RTT, Epoch.HANDSHAKE):
            begin = stop
            for number in reversed(self._spaces[epoch].sent_packets):
                if number < first:
                    break
                begin = number
            self._note(epoch, begin, stop)
            stop = begin
        self._note(Epoch.INITIAL, first, stop)

    def _note(self, epoch: Epoch, first: int, stop: int) -> None:
        if first < stop:
            lowest, _ = self._sent_in.get(epoch, (first, stop))
            self._sent_in[epoch] = (lowest, stop)

    def _handle_ack_frame(self, context: QuicReceiveContext, frame_type: int, buf: Any) -> None:
        start = buf.tell()
        largest, _, ranges = buf.pull_uint_var(), buf.pull_uint_var(), buf.pull_uint_var()
        smallest = largest - buf.pull_uint_var()
        for _ in range(ranges):
            smallest -= buf.pull_uint_var() + buf.pull_uint_var() + 2
        buf.seek(start)
        first, stop = self._sent_in.get(context.epoch, (0, 0))
        if context.epoch is Epoch.ONE_RTT and self._handshake_confirmed:
            stop = self._packet_number
        if largest >= stop or 0 <= smallest < first:
            raise QuicConnectionError(
                error_code=QuicErrorCode.PROTOCOL_VIOLATION,
                frame_type=frame_type,
                reason_phrase="an acknowledgement of a packet that was not sent",
            )
        super()._handle_ack_frame(context, frame_type, buf)
