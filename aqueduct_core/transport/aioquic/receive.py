"""Receiving a burst of datagrams: the common case without aioquic's generality.

aioquic parses, decrypts and books one datagram at a time, ready for anything. Nearly all datagrams
of an established connection are short-header packets on the known path, under the current keys,
with a number above all earlier ones, and hold stream bytes that simply come next. Those are handled
here: header protection of a run of datagrams is removed by one call of the cipher, frames
are read straight from the decrypted bytes, acknowledgements and timers are booked once for a run
of packet numbers, and the bytes of a stream are joined.

Whatever is not exactly that goes to ``QuicConnection`` unchanged: a datagram of which nothing was
acted on yet, or the rest of a packet from the first frame that is special. Nothing is accepted here
that aioquic would refuse; the tests compare the two on the same traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioquic.buffer import encode_uint_var
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import (
    QuicConnectionError,
    QuicConnectionState,
    QuicReceiveContext,
)
from aioquic.quic.events import DatagramFrameReceived, StreamDataReceived
from aioquic.quic.recovery import MAX_ACK_RANGES, QuicPacketSpace
from aioquic.tls import Epoch
from cryptography.exceptions import InvalidTag

from aqueduct_core.transport.aioquic.acknowledging import AckingConnection
from aqueduct_core.transport.aioquic.streams import StreamReceiver
from aqueduct_core.transport.settings import LARGEST_DATAGRAM, LinkSettings

RUN = 64
"""Datagrams whose header protection is removed at once; more gain nothing, and one that turns
out special wastes the work on those behind it."""
NUMBER_AT = 9
"""Where the packet number of a short header is: after the first byte and our 8-byte id."""
SAMPLE = slice(NUMBER_AT + 4, NUMBER_AT + 20)
SHORTEST = NUMBER_AT + 20
MASK_SIZE = 16
RESERVED = 0x18
SPIN = 0x20
NONCE_SIZE = 12
MAX_UDP_PAYLOAD_SIZE = 0x03
"""The transport parameter (RFC 9000 section 18.2)."""

STREAM_KIND, STREAM_FRAME = 0xF8, 0x08
OFFSET, LENGTH, FIN = 0x04, 0x02, 0x01
DATAGRAM_WITH_LENGTH = 0x31
VARINT = {1: 0x3F, 2: 0x3FFF, 4: 0x3FFF_FFFF, 8: 0x3FFF_FFFF_FFFF_FFFF}


class BurstConnection(AckingConnection):
    """An ``AckingConnection`` that takes whole bursts."""

    def __init__(
        self,
        *,
        configuration: QuicConfiguration,
        settings: LinkSettings,
        most_streams: int | None = None,
        **start: Any,
    ) -> None:
        self._largest_frame = 0
        self._bytes_of = -1
        self._bytes: list[bytes] = []
        super().__init__(
            configuration=configuration, settings=settings, most_streams=most_streams, **start
        )

    def offer(self, settings: LinkSettings, most_streams: int | None) -> None:
        super().offer(settings, most_streams)
        self._largest_frame = settings.max_datagram_frame_size

    def _serialize_transport_parameters(self) -> bytes:
        """With one that aioquic leaves out: the largest datagram that we take."""
        size = encode_uint_var(LARGEST_DATAGRAM)
        limit = encode_uint_var(MAX_UDP_PAYLOAD_SIZE) + encode_uint_var(len(size)) + size
        return super()._serialize_transport_parameters() + limit

    def receive_burst(self, datagrams: Sequence[tuple[bytes, Any]], now: float) -> None:
        """Take in datagrams in their order, like ``receive_datagram`` for each that is not larger
        than ``LARGEST_DATAGRAM``."""
        position, count = 0, len(datagrams)
        while position < count:
            if self._usual:
                reached = self._receive_run(datagrams, position, now)
                self._emit()
                if reached > position:
                    position = reached
                    continue
            data, address = datagrams[position]
            if len(data) <= LARGEST_DATAGRAM:
                self.receive_datagram(data, address, now)
            position += 1
        self.came(datagrams, now)

    @property
    def _usual(self) -> bool:
        """Established, on its one path, with keys of AES: packets may be taken the short way."""
        if (
            self._recovery is None
            or self._state is not QuicConnectionState.CONNECTED
            or not self._handshake_confirmed
            or self._close_pending
            or self._quic_logger is not None
            or len(self._network_paths) != 1
            or not self._network_paths[0].is_validated
            or self._cryptos[Epoch.ZERO_RTT].recv.aead is not None
        ):
            return False
        crypto = self._cryptos[Epoch.ONE_RTT].recv
        return crypto.aead is not None and crypto.hp is not None and not crypto.hp._is_chacha20

    def _receive_run(
        self, datagrams: Sequence[tuple[bytes, Any]], position: int, now: float
    ) -> int:
        """Take datagrams from ``position``; return that of the first one not taken."""
        crypto = self._cryptos[Epoch.ONE_RTT].recv
        assert crypto.aead is not None
        assert crypto.hp is not None
        path = self._network_paths[0]
        address, host_cid = path.addr, self.host_cid
        samples = []
        for data, source in datagrams[position : position + RUN]:
            if (
                not SHORTEST <= len(data) <= LARGEST_DATAGRAM
                or data[1:NUMBER_AT] != host_cid
                or data[0] & 0xC0 != 0x40
                or source != address
            ):
                break
            samples.append(data[SAMPLE])
        masks = crypto.hp._encryptor.update(b"".join(samples))
        decrypt, iv = crypto.aead._aead.decrypt, crypto.aead._iv
        phase = crypto.key_phase << 2
        space = self._spaces[Epoch.ONE_RTT]
        context = QuicReceiveContext(Epoch.ONE_RTT, host_cid, path, None, now, None)
        first = stop = space.largest_received_packet + 1
        eliciting = False
        byte = 0
        for at in range(0, len(masks), MASK_SIZE):
            data = datagrams[position][0]
            byte = data[0] ^ (masks[at] & 0x1F)
            if byte & (RESERVED | 0x04) != phase:
                break
            body = NUMBER_AT + 1 + (byte & 0x03)
            masked = masks[at + 1 : at + 1 + body - NUMBER_AT]
            truncated = int.from_bytes(data[NUMBER_AT:body]) ^ int.from_bytes(masked)
            window = 1 << (8 * (body - NUMBER_AT))
            number = _number(truncated, window, space.expected_packet_number)
            if number < stop:
                break  # Late or seen before.
            header = b"%c%b%b" % (byte, host_cid, truncated.to_bytes(body - NUMBER_AT))
            try:
                plain = decrypt((iv ^ number).to_bytes(NONCE_SIZE), data[body:], header)
            except InvalidTag:
                break
            if number > space.expected_packet_number:
                space.expected_packet_number = number + 1
            position += 1
            try:
                needs_ack = self._frames(plain, context)
            except QuicConnectionError as error:
                self.close(error.error_code, error.frame_type, error.reason_phrase)
            if self._close_pending or self._state is not QuicConnectionState.CONNECTED:
                break
            if number != stop:
                self._book(space, first, stop, eliciting, now)
                first, eliciting = number, False
            stop = number + 1
            eliciting = eliciting or needs_ack
            self._turn_spin(byte, number)
        self._book(space, first, stop, eliciting, now)
        return position

    def _book(
        self, space: QuicPacketSpace, first: int, stop: int, eliciting: bool, now: float
    ) -> None:
        """Record the packets from ``first`` to before ``stop`` as received."""
        if first == stop:
            return
        if self._state is QuicConnectionState.CONNECTED and not self._close_pending:
            self._close_at = now + self._idle_timeout()
        self._ack_eliciting_sent_since_receipt = False
        space.largest_received_packet = stop - 1
        space.largest_received_time = now
        space.ack_queue.add(first, stop)
        if len(space.ack_queue) > MAX_ACK_RANGES:
            space.ack_queue.shift()
        seen = space.received_packets
        for number in range(max(first, stop - seen._size), stop):
            seen.add(number)
        if eliciting and space.ack_at is None:
            space.ack_at = now + self._ack_delay

    def _turn_spin(self, byte: int, number: int) -> None:
        """The latency spin bit (RFC 9000 section 17.4)."""
        if number > self._spin_highest_pn:
            spin = bool(byte & SPIN)
            self._spin_bit = not spin if self._is_client else spin
            self._spin_highest_pn = number

    def _frames(self, plain: bytes, context: QuicReceiveContext) -> bool:
        """Handle the frames of a packet; whether it asks for an acknowledgement."""
        size = len(plain)
        limit = self._local_max_data
        streams = self._table
        eliciting = False
        at = 0
        while at < size:
            start = at
            kind = plain[at]
            at += 1
            if kind & STREAM_KIND == STREAM_FRAME and not kind & FIN and at + 17 < size:
                # Integers of variable length are read by hand. With 17 bytes left the first byte
                # of each of the three is there; one that is cut off moves ``at`` past the end.
                width = 1 << (plain[at] >> 6)
                stream_id = int.from_bytes(plain[at : at + width]) & VARINT[width]
                at += width
                offset = 0
                if kind & OFFSET:
                    width = 1 << (plain[at] >> 6)
                    offset = int.from_bytes(plain[at : at + width]) & VARINT[width]
                    at += width
                if kind & LENGTH:
                    width = 1 << (plain[at] >> 6)
                    length = int.from_bytes(plain[at : at + width]) & VARINT[width]
                    at += width
                else:
                    length = size - at
                stop = offset + length
                stream = streams.get(stream_id)
                if (
                    stream is not None
                    and 0 < length <= size - at
                    and stop <= stream.max_stream_data_local
                    and limit.used + length <= limit.value
                    and type(stream.receiver) is StreamReceiver
                    and stream.receiver.advance(offset, stop)
                ):
                    limit.used += length
                    if stream_id != self._bytes_of:
                        self._emit()
                        self._bytes_of = stream_id
                    self._bytes.append(plain[at : at + length])
                    at += length
                    eliciting = True
                    continue
            elif kind == DATAGRAM_WITH_LENGTH and at + 2 < size:
                width = 1 << (plain[at] >> 6)
                length = int.from_bytes(plain[at : at + width]) & VARINT[width]
                at += width
                if 0 < length <= size - at and at - start - 1 + length < self._largest_frame:
                    self._events.append(DatagramFrameReceived(plain[at : at + length]))
                    at += length
                    eliciting = True
                    continue
            elif kind == 0:
                at = size - len(plain[at:].lstrip(b"\0"))
                continue
            self._emit()
            return self._payload_received(context, plain[start:])[0] or eliciting
        if not size:
            self._payload_received(context, plain)
        return eliciting

    def _emit(self) -> None:
        """Hand over the bytes that were joined."""
        if self._bytes_of >= 0:
            data = self._bytes[0] if len(self._bytes) == 1 else b"".join(self._bytes)
            self._events.append(StreamDataReceived(data, False, self._bytes_of))
            self._bytes_of = -1
            self._bytes = []


def _number(truncated: int, window: int, expected: int) -> int:
    """The full packet number (RFC 9000 appendix A.3)."""
    half = window >> 1
    candidate = (expected & -window) | truncated
    if candidate <= expected - half and candidate < (1 << 62) - window:
        return candidate + window
    if candidate > expected + half and candidate >= window:
        return candidate - window
    return candidate
