"""A small HTTP server beside something that must not wait for it.

It is that of the standard library, with bounds: whoever sends much, or slowly, or often, waits or
is cut off, and costs the process next to nothing. Who comes new is let in, and where there is no
room who came first has to go: a good request is answered long before, and so nobody who holds
connections makes a probe of health fail. One request a connection, no body but a form.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import socketserver
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.primitives.host_port import HostPort

log = logging.getLogger(__name__)

MAX_HEAD = 16 << 10
"""Bytes of a request line and its headers."""

MAX_BODY = 4 << 10
"""Bytes of a form."""

REQUEST_SECONDS = 5.0
"""For a request to arrive as a whole, the TLS handshake included."""

ANSWER_SECONDS = 20.0
"""For an answer to be taken."""

MAX_CONNECTIONS = 32
MAX_PER_ADDRESS = 16
"""Connections at once, each of which has a thread."""

DRAIN_SECONDS = 0.5
MAX_DRAINED = 256 << 10
"""For what is refused unread, and bytes of it."""

RATE = 50.0
"""Connections a second, once `BURST` came at a time: those behind them wait in the kernel. A flood
of requests costs so much of one core and no more: about a millisecond each."""

BURST = 100.0

FIELDS = 20
"""Of a query or form."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request. ``query`` and ``form`` have the first value of each field, ``headers`` names in
    lower case. ``secure``: it came over TLS."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    form: Mapping[str, str] = field(default_factory=dict, repr=False)
    secure: bool = False


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What is answered. ``headers`` are added to those that every answer has."""

    status: int
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


class HttpServer(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Serves ``respond`` on an address until `close`, in threads of its own.

    ``respond`` is called from several threads at a time; what it raises is a 500 without details.
    With ``tls`` it speaks HTTPS alone.

    Raises:
        IntakeFailed: UNREACHABLE where the address cannot be bound.
    """

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self,
        where: HostPort,
        respond: Callable[[HttpRequest], HttpResponse],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.respond = respond
        self.tls = tls
        self._open: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        self._tokens, self._filled = BURST, time.monotonic()
        self.address_family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
        try:
            super().__init__((where.host, where.port), _Handler)
        except OSError as error:
            raise IntakeFailed(
                "UNREACHABLE",
                f"the HTTP address {where} cannot be bound: {error.strerror or error}",
                "Choose another address or port with http.listen, or stop what listens there",
            ) from None
        host, port = self.socket.getsockname()[:2]
        self.address = HostPort(host, port)
        self._thread = threading.Thread(target=self.serve_forever, name="http", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no request any more; answers under way end with the process. Takes half a second."""
        self.shutdown()
        self.server_close()

    def get_request(self) -> tuple[socket.socket, Any]:
        now = time.monotonic()
        self._tokens = min(BURST, self._tokens + (now - self._filled) * RATE)
        self._filled = now
        if self._tokens < 1:
            time.sleep((1 - self._tokens) / RATE)
        self._tokens -= 1
        connection, address = super().get_request()
        if self.tls is not None:
            connection = self.tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def process_request(self, request: Any, client_address: Any) -> None:
        """Where there is no room, in the place of the connection that came first: of the same
        address if that has too many, else of the address that has most."""
        host = client_address[0]
        with self._lock:
            held = Counter(self._open.values())
            if held[host] >= MAX_PER_ADDRESS:
                self._displace(host)
            elif held.total() >= MAX_CONNECTIONS:
                self._displace(held.most_common(1)[0][0])
            self._open[request] = host
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def _displace(self, host: str) -> None:
        first = next(each for each, of in self._open.items() if of == host)
        del self._open[first]
        with contextlib.suppress(OSError):  # its thread reads or writes no more, and ends
            socket.socket.shutdown(first, socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Of who went away, or speaks no HTTP; nobody is told."""
        log.debug("a request over HTTP broke off", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer
    rfile: BytesIO
    wfile: BytesIO
    server_version, sys_version = "aqueduct", ""
    default_request_version = "HTTP/1.0"
    error_message_format, error_content_type = "%(message)s\n", "text/plain; charset=utf-8"

    def setup(self) -> None:
        self._deadline = time.monotonic() + REQUEST_SECONDS
        self.connection = self.request
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.settimeout(REQUEST_SECONDS)
            self.connection.do_handshake()
        self.rfile, self.wfile = BytesIO(), BytesIO()
        self._unread = False
        self.command, self.requestline, self.request_version = "", "", "HTTP/1.0"

    def finish(self) -> None:
        try:
            self.connection.settimeout(ANSWER_SECONDS)
            self.connection.sendall(self.wfile.getvalue())
            if self._unread:
                self._drain()
        finally:
            self.connection.close()

    def handle(self) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            if len(data) > MAX_HEAD:
                self._unread = True
                self._send(HttpResponse(431, b"the headers are too long\n"))
                return
            data += self._receive()
        head, _, body = data.partition(b"\r\n\r\n")
        self.rfile = BytesIO(head + b"\r\n\r\n")
        self.raw_requestline = self.rfile.readline()
        if self.parse_request():
            self._send(self._answer(body))

    def _answer(self, body: bytes) -> HttpResponse:
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdecimal() or int(length) > MAX_BODY:
            self._unread = True
            return HttpResponse(413, b"no such body is taken here\n")
        while len(body) < int(length):
            body += self._receive()
        target = urlsplit(self.path)
        try:
            query = _fields(target.query)
            form = _fields(body.decode()) if self.command == "POST" else {}
        except ValueError:
            return HttpResponse(400, b"the fields cannot be read\n")
        secure = self.server.tls is not None
        request = HttpRequest(self.command, target.path, query, headers, form, secure)
        try:
            return self.server.respond(request)
        except Exception:
            log.exception("a request over HTTP failed")
            return HttpResponse(500, b"this is a fault of ours: the log says more\n")

    def _send(self, response: HttpResponse) -> None:
        self.send_response(response.status)
        for name, value in (
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
            ("Connection", "close"),
            *response.headers,
        ):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def _receive(self) -> bytes:
        """Raises: TimeoutError when the request is not here in time; ConnectionError."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.connection.settimeout(left)
        data: bytes = self.connection.recv(4096)
        if not data:
            raise ConnectionAbortedError
        return data

    def _drain(self) -> None:
        """Take what is on its way, for a moment: else the system resets the connection, and nobody
        reads what we answered."""
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(DRAIN_SECONDS)
        for _ in range(MAX_DRAINED // 4096):
            if not self.connection.recv(4096):
                return

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _fields(text: str) -> dict[str, str]:
    """Raises ValueError for what is none, or too many."""
    found: dict[str, str] = {}
    for name, value in parse_qsl(text, max_num_fields=FIELDS, errors="strict"):
        found.setdefault(name, value)
    return found
