"""A QUIC client that sends whatever it is told to, valid or not, on a socket of its own."""

from __future__ import annotations

import os
import select
import socket
import time
from dataclasses import dataclass
from typing import Any

from aioquic._buffer import Buffer
from aioquic.tls import Epoch

from aqueduct_core.aqueduct.config import ALPN
from aqueduct_core.aqueduct.wire.codec import VERSION
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.transport.aioquic.factory import client_link
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls
from tests.support.waiting import LONG

STREAM, OFFSET, LENGTH, FIN = 0x08, 0x04, 0x02, 0x01
TAG = 16


class Closed(Exception):
    """The server has closed the connection, as it may."""


@dataclass
class Tally:
    """What all clients of an attack have sent."""

    bytes: int = 0
    datagrams: int = 0


class RawClient:
    """Blocking. Until `shake` has returned it is an honest client; from then on it acknowledges
    nothing and reads nothing unless it is told to."""

    def __init__(self, host: str, port: int, tally: Tally) -> None:
        self._tally = tally
        self._address = (host, port)
        self.socket = self._new_socket()
        self._link = client_link(
            ALPN, LinkSettings(), ClientTls(insecure=True), host, self._address, time.monotonic()
        )
        self.quic: Any = self._link._quic

    def close(self) -> None:
        """Vanish without a word."""
        self.socket.close()

    def move(self) -> None:
        """Send from another port from now on."""
        self.socket.close()
        self.socket = self._new_socket()

    def hello(self) -> bytes:
        """The first datagram; to be sent once."""
        return self._link.transmit(time.monotonic())[0][0]

    def begin(self) -> None:
        """Send the first flight, prove the address if that is asked for, and go no further."""
        self._flush()
        readable = select.select([self.socket], [], [], 0.05)[0]
        if readable:
            datagram = self._receive()
            if datagram and datagram[0] & 0xF0 == 0xF0:  # a Retry
                self._link.receive([(datagram, self._address)], time.monotonic())
                self._flush()

    def shake(self) -> None:
        """Complete the handshake, and let the server confirm it.

        Raises: Closed.
        """
        limit = time.monotonic() + LONG
        while not self.quic._handshake_confirmed:
            if self._link.lost is not None or time.monotonic() > limit:
                raise Closed
            self._flush()
            self.read(0.05)
        self._flush()

    def greet(self, headers: bytes = b"\0") -> None:
        """The first stream of an Aqueduct client: version and connection headers."""
        self.packet(stream(2, 0, VERSION + b"\x02" + headers, end=True))

    def enter(self) -> None:
        """Be admitted as a producer is, and from then on send what it pleases on streams from 6."""
        self.shake()
        self.greet()
        limit = time.monotonic() + LONG
        while self.quic._remote_max_streams_uni < 1_000:  # granted to those who are admitted
            if self._link.lost is not None or time.monotonic() > limit:
                raise Closed
            self.read(0.05)

    @property
    def received(self) -> int:
        """The largest number of a packet of the established connection that was read."""
        return int(self.quic._spaces[Epoch.ONE_RTT].largest_received_packet)

    @property
    def lost(self) -> LinkLost | None:
        """How the server has closed the connection, as far as that was read."""
        return self._link.lost

    def look(self) -> None:
        """Read what is there, and know of a close.

        Raises: Closed.
        """
        self.read(0.0)
        if self.lost is not None:
            raise Closed

    def wait_closed(self) -> None:
        """Read until the server has closed the connection."""
        limit = time.monotonic() + LONG
        while self.lost is None:
            assert time.monotonic() < limit, "the server does not close"
            self.read(0.05)

    def read(self, seconds: float) -> None:
        """Take in, as an honest client does, what comes within that time."""
        while select.select([self.socket], [], [], seconds)[0]:
            datagram = self._receive()
            if datagram:
                self._link.receive([(datagram, self._address)], time.monotonic())
                self._flush()
            seconds = 0.0

    def datagram(self, payload: bytes) -> None:
        """Send any bytes at all."""
        self._tally.bytes += len(payload)
        self._tally.datagrams += 1
        try:
            self.socket.send(payload)
        except ConnectionRefusedError:
            pass

    def packet(self, *frames: bytes, phase: int | None = None, number: int | None = None) -> None:
        """Send one packet of the established connection, with these frames."""
        quic = self.quic
        if number is None:
            number = quic._packet_number
            quic._packet_number += 1
        crypto = quic._cryptos[Epoch.ONE_RTT]
        first = 0x40 | (crypto.key_phase if phase is None else phase) << 2 | 0x03
        header = bytes([first]) + quic._peer_cid.cid + number.to_bytes(4)
        payload = b"".join(frames)
        self.datagram(crypto.encrypt_packet(header, payload.ljust(20, b"\0"), number))

    def initial(self, *frames: bytes) -> None:
        """Send an Initial of its own, padded as it has to be, with these frames."""
        quic = self.quic
        number = quic._packet_number
        quic._packet_number += 1
        crypto = quic._cryptos_initial[quic._version]
        ids = [quic._peer_cid.cid, quic.host_cid]
        head = b"\xc3" + quic._version.to_bytes(4)
        head += b"".join(bytes([len(each)]) + each for each in ids) + b"\0"
        size = 1_200 - len(head) - 2
        head += (0x4000 | size).to_bytes(2) + number.to_bytes(4)
        payload = b"".join(frames).ljust(size - 4 - TAG, b"\0")
        self.datagram(crypto.encrypt_packet(head, payload, number))

    def _new_socket(self) -> socket.socket:
        made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.connect(self._address)
        return made

    def _receive(self) -> bytes:
        try:
            return self.socket.recv(65_536)
        except ConnectionRefusedError:
            return b""

    def _flush(self) -> None:
        for data, _ in self._link.transmit(time.monotonic()):
            self.datagram(data)


def varint(value: int) -> bytes:
    buffer = Buffer(capacity=8)
    buffer.push_uint_var(value)
    return bytes(buffer.data)


def stream(stream_id: int, offset: int, data: bytes, *, end: bool = False) -> bytes:
    """A STREAM frame."""
    kind = bytes([STREAM | OFFSET | LENGTH | (FIN if end else 0)])
    return kind + varint(stream_id) + varint(offset) + varint(len(data)) + data


def crypto(offset: int, data: bytes) -> bytes:
    """A CRYPTO frame."""
    return b"\x06" + varint(offset) + varint(len(data)) + data


def ack(largest: int, *ranges: tuple[int, int], first: int = 0) -> bytes:
    """An ACK frame: what is acknowledged below ``largest``, then gaps and lengths."""
    head = b"\x02" + varint(largest) + varint(0) + varint(len(ranges)) + varint(first)
    return head + b"".join(varint(gap) + varint(length) for gap, length in ranges)


def noise(size: int) -> bytes:
    return os.urandom(size)
