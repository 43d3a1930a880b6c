"""Retry and NEW_TOKEN between real sockets."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.transport import ClientTls, Driver, LinkSettings, ListenLimits, dial
from aqueduct_core.transport.address_tokens import AddressTokens
from aqueduct_core.transport.aioquic.factory import client_link
from aqueduct_core.transport.sessions import DEFAULT_TICKETS, MemorySessions, server_key
from tests.core.transport.ends import ALPN, Server, dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.support.event_loop import client_tls, eventually
from tests.support.rules import rule
from tests.support.virtual_loop import run_virtually
from tests.support.waiting import LONG

RETRY = ListenLimits(retry="always")


async def dialled_with(
    server: Server,
    tickets: MemorySessions,
    *,
    early_data: bool = False,
    tls: ClientTls | None = None,
    settings: LinkSettings | None = None,
) -> tuple[Driver, Probe]:
    probe = Probe(client=True)
    driver = await dial(
        "127.0.0.1",
        server.port,
        alpn=ALPN,
        settings=settings or LinkSettings(),
        tls=tls or client_tls(),
        make_engine=lambda now: probe,
        on_events=lambda driver, events: None,
        tickets=tickets,
        early_data=early_data,
    )
    return driver, probe


async def greeted(server: Server, count: int) -> None:
    """So many connections came, and the last one's stream has ended."""
    await eventually(lambda: len(server.probes) == count and server.probes[-1].ended == {2})


@rule("AQ-0RTT-5")
def test_the_first_connection_is_retried_and_the_next_one_has_a_token() -> None:
    async def main() -> None:
        tickets = MemorySessions()
        async with serving(limits=RETRY) as server:
            key = server_key(client_tls(), "127.0.0.1", server.port, ALPN)
            counts = server.listener.counts
            for attempt in range(4):
                driver, probe = await dialled_with(server, tickets)
                probe.write(probe.open(), b"hello", end=True)
                driver.kick()
                await greeted(server, attempt + 1)
                # The token comes right behind the handshake.
                await eventually(
                    lambda: bool(tickets._servers.get(key) and tickets._kept(key).tokens)
                )
                await ended(driver)
                assert counts.retried == 1, attempt
            assert counts.accepted == counts.ready == 4
            assert counts.tokens_refused == 0

    run_virtually(main())


def test_without_a_store_of_its_own_a_dial_uses_that_of_the_process() -> None:
    async def main() -> None:
        async with serving(limits=RETRY) as server:
            for attempt in range(2):
                driver, probe = await dialled(server)
                probe.write(probe.open(), b"hello", end=True)
                driver.kick()
                await greeted(server, attempt + 1)
                key = server_key(client_tls(), "127.0.0.1", server.port, ALPN)
                await eventually(lambda: key in DEFAULT_TICKETS._servers)  # noqa: B023
                await ended(driver)
            assert server.listener.counts.retried == 1

    run_virtually(main())


def test_a_wrong_later_token_costs_a_retry_and_nothing_else() -> None:
    async def main() -> None:
        tickets = MemorySessions()
        async with serving(limits=RETRY) as server:
            key = server_key(client_tls(), "127.0.0.1", server.port, ALPN)
            for wrong in (b"garbage", AddressTokens().for_later(("127.0.0.1", 1), 0.0)):
                tickets.keep_token(key, wrong)
                driver, _ = await dialled_with(server, tickets)
                await ended(driver)
                tickets.take_token(key)
            assert server.listener.counts.retried == 2

    run_virtually(main())


def test_a_wrong_retry_token_is_refused_at_once() -> None:
    async def main() -> None:
        tickets = MemorySessions()
        async with serving(limits=RETRY) as server:
            key = server_key(client_tls(), "127.0.0.1", server.port, ALPN)
            forged = AddressTokens().for_retry(("127.0.0.1", 1), b"original", b"source", 0.0)
            tickets.keep_token(key, forged)
            async with asyncio.timeout(LONG):
                with pytest.raises(ConnectFailed, match="INVALID_TOKEN"):
                    await dialled_with(server, tickets)
            assert server.listener.counts.tokens_refused == 1
            assert server.listener.counts.accepted == 0
            # No trace of it is left, and the next dial is served.
            driver, _ = await dialled_with(server, tickets)
            await ended(driver)

    run_virtually(main())


def test_a_flood_from_addresses_that_do_not_answer_makes_no_connection() -> None:
    async def main() -> None:
        async with serving(limits=RETRY) as server:
            listener = server.listener
            hellos = [await _first_datagram(server) for _ in range(50)]
            listener.receive([(data, ("127.0.0.1", 9)) for data in hellos])
            await eventually(lambda: not listener._strangers)
            assert listener.counts.retried == 50
            assert not listener.drivers

    run_virtually(main())


async def _first_datagram(server: Server) -> bytes:
    now = asyncio.get_running_loop().time()
    link = client_link(ALPN, LinkSettings(), client_tls(), "127.0.0.1", ("127.0.0.1", 9), now)
    ((data, _), *_) = link.transmit(now)
    return data


@rule("AQ-0RTT-1", "AQ-0RTT-5")
def test_early_data_with_a_token_is_taken_in_the_first_flight_of_a_listener_with_retry() -> None:
    async def main() -> None:
        tickets = MemorySessions()
        limits = ListenLimits(retry="always", early_data=True)
        async with serving(limits=limits) as server:
            key = server_key(client_tls(), "127.0.0.1", server.port, ALPN)
            driver, _ = await dialled_with(server, tickets, early_data=True)
            assert driver.link.ready  # Nothing is known of the server: a full handshake.
            await eventually(
                lambda: (
                    key in tickets._servers
                    and bool(tickets._kept(key).tokens)
                    and bool(tickets._kept(key).sessions)
                )
            )
            await ended(driver)
            driver, probe = await dialled_with(server, tickets, early_data=True)
            assert driver.link.early
            probe.write(probe.open(), b"early", end=True)
            driver.kick()
            await eventually(lambda: len(server.probes) == 2 and server.probes[1].ended == {2})
            assert driver.link.early_accepted is True
            assert server.listener.counts.retried == 1
            assert server.probes[1].streams == {2: 5}
            await ended(driver)

    run_virtually(main())


@rule("AQ-0RTT-1")
def test_an_early_dial_to_nobody_ends_the_link_and_says_why() -> None:
    async def main() -> None:
        tickets = MemorySessions()
        async with serving(limits=ListenLimits(early_data=True)) as server:
            driver, _ = await dialled_with(server, tickets)
            key = server_key(client_tls(), "127.0.0.1", server.port, ALPN)
            await eventually(lambda: key in tickets._servers)
            await ended(driver)
        driver, probe = await dialled_with(server, tickets, early_data=True)
        assert not driver.link.ready
        probe.write(probe.open(), b"to nobody", end=True)
        driver.kick()
        await driver.wait_closed()
        assert isinstance(probe.lost, LinkLost)
        assert probe.lost.reason.startswith("unreachable")
        error = driver.why_not_ready()
        assert isinstance(error, ConnectFailed)
        assert "cannot be reached" in str(error)

    run_virtually(main())
