"""A QUIC client that sends whatever it is told to, valid or not, on a socket of its own."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

from aioquic._buffer import Buffer
from aioquic.tls import Epoch

from aqueduct_core.transport.aioquic_port.making import client_link
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls import ClientTls

ANSWER_SECONDS = 30.0
STREAM, OFFSET, LENGTH = 0x08, 0x04, 0x02


class RawClient:
    """Blocking. Until `shake` has returned it is an honest client; from then on it acknowledges
    nothing and reads nothing unless it is told to."""

    def __init__(self, host: str, port: int, *, settings: LinkSettings | None = None) -> None:
        self.sent = 0
        self._address = (host, port)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.connect(self._address)
        self._link = client_link(
            settings or LinkSettings(),
            ClientTls(insecure=True),
            host,
            self._address,
            time.monotonic(),
        )
        self.quic: Any = self._link._quic

    def hello(self) -> bytes:
        """The first datagram; to be sent once."""
        return self._link.transmit(time.monotonic())[0][0]

    def shake(self) -> None:
        """Complete the handshake, and let the server confirm it."""
        limit = time.monotonic() + ANSWER_SECONDS
        while not self.quic._handshake_confirmed:
            assert time.monotonic() < limit, "the server does not answer"
            self._flush()
            self.read(0.05)
        self._flush()

    def read(self, seconds: float) -> None:
        """Take in, as an honest client does, what comes within that time."""
        while select.select([self.socket], [], [], seconds)[0]:
            try:
                datagrams = [(self.socket.recv(65_536), self._address)]
            except ConnectionRefusedError:
                continue
            self._link.receive(datagrams, time.monotonic())
            self._flush()
            seconds = 0.0

    def datagram(self, payload: bytes) -> None:
        """Send any bytes at all."""
        self.sent += len(payload)
        try:
            self.socket.send(payload)
        except ConnectionRefusedError:
            pass

    def packet(self, *frames: bytes) -> None:
        """Send one packet of the established connection, with these frames."""
        quic = self.quic
        number = quic._packet_number
        quic._packet_number += 1
        crypto = quic._cryptos[Epoch.ONE_RTT]
        first = 0x40 | crypto.key_phase << 2 | 0x03
        header = bytes([first]) + quic._peer_cid.cid + number.to_bytes(4)
        payload = b"".join(frames)
        self.datagram(crypto.encrypt_packet(header, payload.ljust(20, b"\0"), number))

    def _flush(self) -> None:
        for data, _ in self._link.transmit(time.monotonic()):
            self.datagram(data)


def varint(value: int) -> bytes:
    buffer = Buffer(capacity=8)
    buffer.push_uint_var(value)
    return bytes(buffer.data)


def stream(stream_id: int, offset: int, data: bytes) -> bytes:
    """A STREAM frame."""
    kind = bytes([STREAM | OFFSET | LENGTH])
    return kind + varint(stream_id) + varint(offset) + varint(len(data)) + data
