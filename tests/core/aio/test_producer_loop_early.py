"""The reconnecting producer with early data: nothing lost and nothing twice, whatever the server
makes of it."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.serve import Server, bearer, serve
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import AuthFailed, ConnectFailed, TlsFailed
from aqueduct_core.primitives.certificates import Authority
from aqueduct_core.transport.sessions import MemorySessions, SessionTable
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls, issue, make_authority
from tests.core.aio.storing import Store, producer, storing
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.rules import rule

EARLY = ListenLimits(early_data=True)
NAMES = ("localhost", "127.0.0.1")


def sessions(tickets: MemorySessions) -> int:
    return sum(len(kept.sessions) for kept in tickets._servers.values())


def early(producing: Producer) -> bool | None:
    """What became of the early data of its connection."""
    assert producing.connection is not None
    return producing.connection.early_data


async def send_on(producing: Producer, name: str, count: int) -> None:
    """A whole channel."""
    channel = producing.channel(name)
    await channel.send_many([b"%d" % number for number in range(count)])
    await channel.finish()
    assert channel.statistics.acked == count


async def lose(store: Store) -> None:
    """End the connection, and wait for the next one."""
    before = len(store.connections)
    store.connections[-1].abort("test")
    await eventually(lambda: len(store.connections) > before)


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@pytest.mark.parametrize("server_does", ["knows", "forgot", "expired"])
@in_loop
async def test_what_has_no_ack_is_early_data_of_the_next_connection(
    server_does: str, mode: str
) -> None:
    """``forgot``: as a server that was started again."""
    tickets = MemorySessions()
    async with storing(limits=EARLY) as (server, store):
        async with producer(server.url, tickets=tickets, early_data=True) as producing:
            cpu, load = producing.channel("cpu", mode), producing.channel("load", "unreliable")
            for part in range(4):
                await eventually(lambda: sessions(tickets) > 0)
                if server_does == "forgot":
                    server.listener._sessions = SessionTable(16)
                elif server_does == "expired":
                    expire(server)
                await cpu.send_many([b"%d" % i for i in range(part * 100, part * 100 + 100)])
                await load.send(b"%d" % part)
                await lose(store)
                await eventually(lambda: early(producing) is not None)
                assert early(producing) is (server_does == "knows")
            await cpu.finish()
            assert cpu.statistics.acked_ranges == ((0, 400),)
            assert producing.statistics.reconnects == 4
        assert store.payloads("cpu") == [b"%d" % i for i in range(400)]
        assert len(set(store.unreliable)) == len(store.unreliable)


def expire(server: Server) -> None:
    table = server.listener._sessions
    assert table is not None
    past = datetime.datetime.fromtimestamp(0, datetime.UTC)
    for ticket, session in table._sessions.items():
        table._sessions[ticket] = dataclasses.replace(session, not_valid_after=past)


@rule("AQ-0RTT-1")
@in_loop
async def test_a_session_that_has_expired_is_not_used() -> None:
    tickets = MemorySessions()
    async with storing(limits=EARLY) as (server, store):
        async with producer(server.url, tickets=tickets, early_data=True) as producing:
            await eventually(lambda: sessions(tickets) > 0)
            (kept,) = tickets._servers.values()
            kept.sessions.append(dataclasses.replace(kept.sessions.pop(), expires=1.0))
            cpu = producing.channel("cpu")
            await cpu.send(b"0")
            await lose(store)
            await cpu.finish()
            assert early(producing) is None
        assert store.payloads("cpu") == [b"0"]


def issued(authority: Authority) -> ServerTls:
    leaf = issue(authority, NAMES)
    return ServerTls(cert_pem=leaf.cert_pem, key_pem=leaf.key_pem)


@rule("AQ-0RTT-2")
@in_loop
async def test_a_server_with_another_key_gets_everything_once_it_is_trusted() -> None:
    authority, tickets = make_authority(), MemorySessions()
    tls = ClientTls(ca_pem=authority.cert_pem)
    port = 0
    for visit in range(3):
        async with storing(port, tls=issued(authority), limits=EARLY) as (server, store):
            port = server.address[1]
            async with producer(server.url, tls=tls, tickets=tickets, early_data=True) as producing:
                await send_on(producing, "cpu", 10)
                assert early(producing) is (False if visit else None)
                await eventually(lambda: sessions(tickets) > 0)
            assert store.payloads("cpu") == [b"%d" % i for i in range(10)]
            assert store.repeats == 0


@rule("AQ-0RTT-2")
@in_loop
async def test_a_server_with_another_key_that_is_not_trusted_gets_nothing() -> None:
    tickets = MemorySessions()
    async with storing(limits=EARLY) as (server, _):
        async with producer(server.url, tickets=tickets, early_data=True) as producing:
            await send_on(producing, "cpu", 1)
            await eventually(lambda: sessions(tickets) > 0)
        port = server.address[1]
    async with storing(port, tls=ServerTls.self_signed(), limits=EARLY) as (impostor, store):
        producing = producer(impostor.url, tickets=tickets, early_data=True)
        producing.channel("load", "unreliable")
        with pytest.raises(TlsFailed):
            await producing.open()
        assert store.connections == []
        assert impostor.listener.counts.ready == 0


@in_loop
async def test_a_token_that_is_refused_ends_the_producer_as_without_early_data() -> None:
    tickets = MemorySessions()
    async with storing(limits=EARLY, authorize=bearer("old")) as (server, _):
        async with producer(server.url, tickets=tickets, early_data=True, token="old"):
            await eventually(lambda: sessions(tickets) > 0)
        port = server.address[1]
    async with storing(port, limits=EARLY, authorize=bearer("new")) as (server, store):
        with pytest.raises(AuthFailed):
            await producer(server.url, tickets=tickets, early_data=True, token="old").open()
        assert store.connections == []


@in_loop
async def test_whoever_does_not_wait_for_a_server_learns_that_there_is_none() -> None:
    tickets = MemorySessions()
    async with storing(limits=EARLY) as (server, _):
        async with producer(server.url, tickets=tickets, early_data=True):
            await eventually(lambda: sessions(tickets) > 0)
        url = server.url
    producing = producer(url, tickets=tickets, early_data=True, wait_for_server=False)
    with pytest.raises(ConnectFailed, match="cannot be reached"):
        await producing.open()
    assert sessions(tickets) == 0  # it was an early dial
    with pytest.raises(ConnectFailed, match="gave up after 0 s"):
        await producer(url, tickets=tickets, early_data=True, give_up_after=0.0).open()


@rule("AQ-0RTT-1")
@in_loop
async def test_a_server_that_never_answers_the_headers_is_no_endless_wait() -> None:
    tickets, ended = MemorySessions(), asyncio.Event()

    async def wait(_: Headers) -> bool:
        await ended.wait()
        return True

    async with serve("127.0.0.1", 0, tls=server_tls(), limits=EARLY, authorize=wait) as server:
        first = asyncio.ensure_future(connect(server.url, tls=client_tls(), tickets=tickets))
        await eventually(lambda: sessions(tickets) > 0)
        client = await connect(
            server.url,
            tls=client_tls(),
            tickets=tickets,
            early_data=True,
            settings=LinkSettings(handshake_timeout=0.2),
        )
        with pytest.raises(ConnectFailed, match="did not answer the connection headers"):
            await client.accepted()
        assert client.early_data is True
        await client.wait_closed()
        ended.set()
        await (await first).close()
        await server.close(drain_timeout=0.1)  # it does not know that the other one has gone
