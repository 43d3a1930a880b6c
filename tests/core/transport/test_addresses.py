"""Names to addresses, and sockets bound to them: what cannot be is told in one line."""

from __future__ import annotations

import socket

import pytest

from aqueduct_core.errors import ConnectFailed
from aqueduct_core.transport.addresses import bound, connected, refused, resolve, shown
from tests.core.transport.ends import dialled, ended, serving
from tests.support.ports import free_port
from tests.support.virtual_loop import run_virtually

HOME = "127.0.0.1"


def test_an_address_is_its_own_name() -> None:
    found = run_virtually(resolve(HOME, 4433))
    assert found == [(socket.AF_INET, (HOME, 4433))]


def test_an_unknown_host_is_a_dns_error() -> None:
    with pytest.raises(ConnectFailed, match=r"DNS.*no-such-host\.invalid"):
        run_virtually(resolve("no-such-host.invalid", 4433))


def test_no_host_is_every_address_to_a_listener() -> None:
    found = run_virtually(resolve("", 4433, passive=True))
    assert {address[0] for _, address in found} <= {"0.0.0.0", "::"}
    assert found


def test_a_name_with_two_addresses_is_tried_at_both() -> None:
    async def main() -> None:
        async with serving(HOME) as server:
            driver, probe = await dialled(server, host="localhost")
            assert probe.ready is not None
            await ended(driver)

    run_virtually(main())


def test_an_address_that_is_in_use_or_not_ours_is_named() -> None:
    with bound(socket.AF_INET, (HOME, 0)) as first:
        address = first.getsockname()
        with pytest.raises(ConnectFailed, match=rf"REFUSED.*{shown(address)} is in use"):
            bound(socket.AF_INET, address)
    with pytest.raises(ConnectFailed, match=r"REFUSED.*cannot listen on 192\.0\.2\.1:4433"):
        bound(socket.AF_INET, ("192.0.2.1", 4433))


def test_a_connected_socket_has_one_peer() -> None:
    peer = (HOME, free_port())
    with connected(socket.AF_INET, peer) as sock:
        assert sock.getpeername() == peer


def test_addresses_are_shown_as_in_a_url() -> None:
    assert shown((HOME, 1)) == "127.0.0.1:1"
    assert shown(("::1", 1, 0, 0)) == "[::1]:1"
    error = refused(("::1", 1, 0, 0), ConnectionRefusedError(111, "whatever the library says"))
    assert "[::1]:1 cannot be reached: Connection refused" in str(error)


def test_sockets_that_say_so_share_a_port_and_no_other_joins_them() -> None:
    with bound(socket.AF_INET, (HOME, 0), shared=True) as first:
        address = first.getsockname()
        with bound(socket.AF_INET, address, shared=True) as second:
            assert second.getsockname() == address
            with pytest.raises(ConnectFailed, match="in use"):
                bound(socket.AF_INET, address)
