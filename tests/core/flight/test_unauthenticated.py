"""Connections to Flight over which nobody calls are bounded in number and time."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from aqueduct_core.flight import unauthenticated
from aqueduct_core.flight.unauthenticated import (
    MAX_LOOKS,
    MAX_WAITING,
    PeerAddress,
    UnauthenticatedConnections,
    accepted_from,
    open_sockets,
    overdue,
)
from tests.core.flight.hosted import MemoryHost, client_of, serving
from tests.support.waiting import LONG, wait_until


def test_who_waits_too_long_is_overdue() -> None:
    assert overdue({1: MAX_LOOKS, 2: MAX_LOOKS + 1}) == [2]
    assert overdue({}) == []


def test_the_oldest_of_too_many_are_overdue() -> None:
    looks = dict.fromkeys(range(MAX_WAITING), 1)
    assert overdue(looks) == []
    assert overdue(looks | {100: 2, 101: 3, MAX_WAITING: 1, MAX_WAITING + 1: 1}) == [101, 100]


@pytest.mark.parametrize(
    ("name", "host", "port"),
    [
        ("ipv4:192.0.2.1:9", "192.0.2.1", 9),
        ("ipv6:%5B2001:db8::1%5D:65535", "2001:db8::1", 65535),
        ("ipv6:%5B::ffff:192.0.2.1%5D:9", "192.0.2.1", 9),
        ("ipv6:%5Bfe80::1%25eth0%5D:9", "fe80::1", 9),
    ],
)
def test_a_peer_has_one_address_whoever_names_it(name: str, host: str, port: int) -> None:
    assert PeerAddress.named(name) == (host, port)
    assert PeerAddress.of(host, port) == (host, port)


def test_of_a_scope_and_a_mapped_address_the_address_stays() -> None:
    assert PeerAddress.of("fe80::1%eth0", 9) == ("fe80::1", 9)
    assert PeerAddress.of("::ffff:192.0.2.1", 9) == ("192.0.2.1", 9)


def accepted(port: int) -> list[PeerAddress]:
    """The peers of a server in this process."""
    peers = [accepted_from(number, port) for number in open_sockets().values()]
    return [peer for peer in peers if peer is not None]


def ended(connection: socket.socket) -> bool:
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


@contextmanager
def silent(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that the server has accepted and that never say anything, in their order."""
    with ExitStack() as stack:
        before = len(accepted(port))
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=LONG))
            for _ in range(count)
        ]
        wait_until(lambda: len(accepted(port)) == before + count, LONG, "the connections")
        yield connections


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests look themselves."""
    monkeypatch.setattr(UnauthenticatedConnections, "watch", lambda self, port: None)


@pytest.mark.usefixtures("unwatched")
def test_silent_connections_end_and_those_with_calls_stay() -> None:
    with serving(MemoryHost()) as server, client_of(server) as client:
        client.status()
        connections = server._unauthenticated
        with silent(server.port, 3) as strangers:
            for _ in range(MAX_LOOKS):
                assert connections.look(server.port) == 0
            (mine,) = connections._proven.intersection(accepted(server.port))
            assert connections.look(server.port) == 3
            assert all(ended(stranger) for stranger in strangers)
        wait_until(lambda: connections.look(server.port) == 0, LONG, "their end")
        assert client.status().epoch == 3
        assert connections._proven == {mine}

    def forgotten() -> bool:
        connections.look(server.port)
        return not connections._proven

    wait_until(forgotten, LONG, "the end of the server's")


@pytest.mark.usefixtures("unwatched")
def test_of_too_many_the_oldest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "MAX_WAITING", 5)
    with serving(MemoryHost()) as server, silent(server.port, 2) as first:
        assert server._unauthenticated.look(server.port) == 0
        with silent(server.port, 5) as more:
            assert server._unauthenticated.look(server.port) == 2
            assert all(ended(stranger) for stranger in first)
            for stranger in more:
                stranger.setblocking(False)
                with pytest.raises(BlockingIOError):
                    stranger.recv(1)


@pytest.mark.usefixtures("unwatched")
def test_they_are_found_where_no_descriptor_is_left() -> None:
    with serving(MemoryHost()) as server, silent(server.port, 1) as (stranger,):
        usual = resource.getrlimit(resource.RLIMIT_NOFILE)
        with ExitStack() as stack:
            resource.setrlimit(resource.RLIMIT_NOFILE, (stranger.fileno() + 40, usual[1]))
            stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, usual)
            with contextlib.suppress(OSError):
                while True:
                    stack.callback(os.close, os.dup(0))
            with pytest.raises(OSError, match="Too many open files"):
                os.listdir("/proc/self/fd")
            for _ in range(MAX_LOOKS):
                assert server._unauthenticated.look(server.port) == 0
            assert server._unauthenticated.look(server.port) == 1
            assert ended(stranger)


def test_a_server_looks_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unauthenticated, "MAX_LOOKS", 1)
    monkeypatch.setattr(unauthenticated, "LOOK_SECONDS", 0.01)
    with (
        serving(MemoryHost()) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=LONG) as stranger,
    ):
        assert ended(stranger)
