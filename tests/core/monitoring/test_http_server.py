"""A server that nobody can hold up: slow, large, many and broken requests."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.monitoring import http_server
from aqueduct_core.monitoring.http_server import (
    MAX_BODY,
    MAX_CONNECTIONS,
    MAX_HEAD,
    MAX_PER_ADDRESS,
    HttpRequest,
    HttpResponse,
    HttpServer,
)
from aqueduct_core.primitives.host_port import HostPort
from tests.support.waiting import LONG


class Answers:
    def __init__(self) -> None:
        self.requests: list[HttpRequest] = []

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        if request.path == "/fault":
            raise RuntimeError("something that nobody should read")
        return HttpResponse(200, b"hello", headers=(("X-Own", "1"),))


@contextmanager
def serving(answers: Answers) -> Iterator[HostPort]:
    server = HttpServer(HostPort("127.0.0.1", 0), answers)
    try:
        yield server.address
    finally:
        server.close()


def talk(where: HostPort, data: bytes, *, end: bool = False) -> bytes:
    with socket.create_connection(where, LONG) as connection:
        connection.sendall(data)
        if end:
            connection.shutdown(socket.SHUT_WR)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
    return received


def test_a_request_is_read_and_answered() -> None:
    answers = Answers()
    with serving(answers) as where:
        got = talk(where, b"GET /a?x=1&x=2&y=%20z HTTP/1.1\r\nHost: h\r\nCookie: c=d\r\n\r\n")
        head, _, body = got.partition(b"\r\n\r\n")
        assert b" 200 OK" in head.splitlines()[0]
        assert b"X-Own: 1" in head
        assert b"X-Content-Type-Options: nosniff" in head
        assert b"Python" not in head
        assert body == b"hello"
        assert talk(where, b"HEAD /a HTTP/1.1\r\n\r\n").endswith(b"\r\n\r\n")
    [request, _] = answers.requests
    assert (request.method, request.path, request.query) == ("GET", "/a", {"x": "1", "y": " z"})
    assert request.headers == {"host": "h", "cookie": "c=d"}


def test_a_form_is_read_in_pieces() -> None:
    answers = Answers()
    with serving(answers) as where, socket.create_connection(where, LONG) as connection:
        connection.sendall(b"POST /login HTTP/1.1\r\nContent-Length: 9\r\n\r\ntoken")
        connection.sendall(b"=abc")
        assert connection.recv(65536)
    assert answers.requests[0].form == {"token": "abc"}


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET / HTTP/1.1\r\nX: " + b"x" * (MAX_HEAD + 8_192), b"431"),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (MAX_BODY + 1), b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\n\xff", b"400"),
        (b"GET /?" + b"&".join(b"a=1" for _ in range(50)) + b" HTTP/1.1\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET /fault HTTP/1.1\r\n\r\n", b"500"),
    ],
)
def test_what_is_no_request_for_us_is_answered(data: bytes, status: bytes) -> None:
    with serving(Answers()) as where:
        got = talk(where, data)
        assert status in got.splitlines()[0]
        assert b"something that nobody" not in got
        assert b"200 OK" in talk(where, b"GET / HTTP/1.1\r\n\r\n")


def test_who_says_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.05)
    answers = Answers()
    with serving(answers) as where:
        assert talk(where, b"GET / HT") == b""
        assert talk(where, b"", end=True) == b""
        assert answers.requests == []


def held(where: HostPort, addresses: list[str]) -> list[socket.socket]:
    """Connections that have begun a request, from these addresses, in this order."""
    made = []
    for address in addresses:
        made.append(socket.create_connection(where, LONG, (address, 0)))
        made[-1].sendall(b"GET / HTTP/1.1\r\n")
    return made


def test_who_holds_all_connections_of_an_address_loses_the_first_and_keeps_nobody_out() -> None:
    with serving(Answers()) as where:
        waiting = held(where, ["127.0.0.1"] * MAX_PER_ADDRESS)
        assert b"200 OK" in talk(where, b"GET / HTTP/1.1\r\n\r\n")
        assert waiting[0].recv(65536) == b""
        waiting[1].sendall(b"\r\n")
        assert b"200 OK" in waiting[1].recv(65536)
        for each in waiting:
            each.close()


def test_who_holds_all_connections_keeps_nobody_out() -> None:
    """The address that has most gives way, and not one that has a few."""
    with serving(Answers()) as where:
        few = held(where, ["127.0.0.2"])
        many = ["127.0.0.3"] * MAX_PER_ADDRESS
        others = held(where, [*many, *many, *["127.0.0.4"] * (MAX_CONNECTIONS - 1)])
        for _ in range(3):
            assert b"200 OK" in talk(where, b"GET / HTTP/1.1\r\n\r\n")
        few[0].sendall(b"\r\n")
        assert b"200 OK" in few[0].recv(65536)
        for each in (*few, *others):
            each.close()


def test_an_address_that_is_taken_is_told() -> None:
    with (
        serving(Answers()) as where,
        pytest.raises(IntakeFailed, match=r"UNREACHABLE.*http\.listen"),
    ):
        HttpServer(where, Answers())
    before = threading.active_count()
    with serving(Answers()):
        assert threading.active_count() > before
