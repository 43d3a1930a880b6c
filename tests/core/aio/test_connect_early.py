"""The asyncio API with early data, over real sockets."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection, ServerConnection
from aqueduct_core.aio.halves import Receiver, channel
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.serve import Server, bearer, serve
from aqueduct_core.errors import AuthFailed, ConnectFailed, TlsFailed
from aqueduct_core.transport.session_file import SessionFile
from aqueduct_core.transport.sessions import MemorySessions, SessionStore
from aqueduct_core.transport.settings import LinkSettings, ListenLimits
from aqueduct_core.transport.tls.credentials import ServerTls
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.rules import rule

EARLY = ListenLimits(early_data=True)


@asynccontextmanager
async def listening(port: int = 0, **options: Any) -> AsyncIterator[Server]:
    options.setdefault("limits", EARLY)
    async with serve("127.0.0.1", port, tls=server_tls(), **options) as server:
        yield server


async def visit(server: Server, tickets: MemorySessions, **options: Any) -> None:
    """A whole connection, which leaves a session behind."""
    before = _sessions(tickets)
    async with connect(server.url, tls=client_tls(), tickets=tickets, **options) as client:
        await server.accept()
        await eventually(lambda: _sessions(tickets) > before)
        assert client.early_data is None


def _sessions(tickets: MemorySessions) -> int:
    return sum(len(kept.sessions) for kept in tickets._servers.values())


async def say_all(client: ClientConnection, rng: random.Random) -> dict[str, list[bytes]]:
    """Messages of every reliable kind, sent without waiting for anything: what goes where."""
    said: dict[str, list[bytes]] = {"entrypoint": [], "ordered": [], "unordered": []}
    senders = {}
    receivers = []
    for mode in ("ordered", "unordered"):
        senders[mode], receiver = channel(mode)
        receivers.append(receiver)
    said["entrypoint"].append(b"take these")
    await client.entrypoint.send(b"take these", attach=receivers)
    for mode, sender in senders.items():
        for _ in range(20):
            payload = rng.randbytes(rng.choice((0, 10, 1_500)))
            said[mode].append(payload)
            await sender.send(payload)
        finishing = asyncio.create_task(sender.finish())
        finishing.add_done_callback(lambda done: done.exception())
        senders[mode] = sender
    return said


async def hear_all(served: ServerConnection) -> dict[str, list[bytes]]:
    heard: dict[str, list[bytes]] = {}
    message = await served.entrypoint.receive()
    heard["entrypoint"] = [bytes(message.payload)]
    for mode, half in zip(("ordered", "unordered"), message.attachments, strict=True):
        assert isinstance(half, Receiver)
        heard[mode] = [bytes(each.payload) async for each in half]
    return in_order(heard)


def in_order(messages: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
    """Those of the unordered channel in an order of their own."""
    return {**messages, "unordered": sorted(messages["unordered"])}


@rule("AQ-0RTT-1", "AQ-0RTT-3")
@in_loop
async def test_accepted_early_data_arrives_once() -> None:
    tickets = MemorySessions()
    async with listening() as server:
        await visit(server, tickets)
        async with connect(
            server.url, tls=client_tls(), tickets=tickets, early_data=True
        ) as client:
            assert not client._driver.link.ready
            assert client.headers == ()
            said = await say_all(client, random.Random(1))
            # All of that was given away before the server could have said a word.
            assert client.early_data is None
            served = await server.accept()
            assert await hear_all(served) == in_order(said)
            assert await client.accepted() == client.headers
            assert client.early_data is True
            assert client.fingerprint == server.fingerprint


@rule("AQ-0RTT-2")
@in_loop
async def test_rejected_early_data_arrives_once() -> None:
    tickets = MemorySessions()
    async with listening() as server:
        await visit(server, tickets)
        port = server.address[1]
    # The same server started again: it knows nothing of the session.
    async with (
        listening(port) as server,
        connect(server.url, tls=client_tls(), tickets=tickets, early_data=True) as client,
    ):
        assert not client._driver.link.ready
        said = await say_all(client, random.Random(2))
        served = await server.accept()
        assert await hear_all(served) == in_order(said)
        await client.accepted()
        assert client.early_data is False
        assert server.connections == {served}


@rule("AQ-0RTT-2")
@in_loop
async def test_early_datagrams_that_are_rejected_are_nacked() -> None:
    tickets = MemorySessions()
    async with listening() as server:
        await visit(server, tickets)
        port = server.address[1]
    async with (
        listening(port) as server,
        connect(server.url, tls=client_tls(), tickets=tickets, early_data=True) as client,
    ):
        sender, receiver = channel("unreliable")
        await client.entrypoint.send(b"take", attach=[receiver])
        for number in range(5):
            await sender.send(b"%d" % number)
        # One turn of the loop: what is above leaves as 0-RTT data.
        await asyncio.sleep(0)
        served = await server.accept()
        (far,) = (await served.entrypoint.receive()).attachments
        assert isinstance(far, Receiver)
        await sender.finish()
        statistics = sender.statistics
        assert statistics.sent == 5
        assert statistics.acked + statistics.nacked == 5
        assert [message async for message in far] == []
        assert statistics.nacked == 5


@rule("AQ-0RTT-5")
@in_loop
async def test_early_data_is_off_by_default_on_both_sides() -> None:
    tickets = MemorySessions()
    async with listening() as server:
        await visit(server, tickets)
        async with connect(server.url, tls=client_tls(), tickets=tickets) as client:
            assert client._driver.link.ready
            await client.accepted()
            assert client.early_data is None
            # The session was used all the same: no certificate came.
            assert client._driver.link._quic.resumed  # type: ignore[attr-defined]
    async with listening(limits=None) as server:
        async with connect(server.url, tls=client_tls(), tickets=tickets):
            await server.accept()
        assert not any(
            key.port == server.address[1] and kept.sessions
            for key, kept in tickets._servers.items()
        )


@rule("AQ-0RTT-5")
def test_a_program_that_is_started_again_uses_what_is_in_its_file(tmp_path: Path) -> None:
    @in_loop
    async def main() -> None:
        path = tmp_path / "tickets"
        async with listening() as server:
            before = SessionFile(path)
            await visit(server, before)
            before.flush()
            async with connect(
                server.url, tls=client_tls(), tickets=SessionFile(path), early_data=True
            ) as client:
                await client.entrypoint.send(b"hello again")
                served = await server.accept()
                assert bytes((await served.entrypoint.receive()).payload) == b"hello again"
                assert client.early_data is True

    main()


@rule("AQ-0RTT-2", "AQ-0RTT-5")
def test_a_session_that_two_programs_have_from_one_file_is_taken_once(tmp_path: Path) -> None:
    @in_loop
    async def main() -> None:
        path = tmp_path / "tickets"
        async with listening() as server:
            before = SessionFile(path)
            await visit(server, before)
            before.flush()
            taken = []
            for tickets in [SessionFile(path), SessionFile(path)]:
                async with connect(
                    server.url, tls=client_tls(), tickets=tickets, early_data=True
                ) as client:
                    assert not client._driver.link.ready
                    said = await say_all(client, random.Random(3))
                    heard = await hear_all(await server.accept())
                    heard["unordered"].sort()
                    said["unordered"].sort()
                    assert heard == said
                    taken.append(client.early_data)
            assert taken == [True, False]

    main()


@rule("AQ-0RTT-1")
@in_loop
async def test_a_server_that_refuses_says_so_to_whom_asks() -> None:
    tickets = MemorySessions()
    async with listening(authorize=bearer("right")) as server:
        await visit(server, tickets, token="right")
        client = await connect(
            server.url, tls=client_tls(), tickets=tickets, early_data=True, token="wrong"
        )
        await client.entrypoint.send(b"let me in")
        with pytest.raises(AuthFailed):
            await client.accepted()
        with pytest.raises(ConnectionLost):
            await client.entrypoint.finish()
        await client.close()


@rule("AQ-0RTT-1")
@in_loop
async def test_nobody_listens_any_more() -> None:
    tickets = MemorySessions()
    async with listening() as server:
        await visit(server, tickets)
        url = server.url
    client = await connect(url, tls=client_tls(), tickets=tickets, early_data=True)
    with pytest.raises(ConnectFailed, match="cannot be reached"):
        await client.accepted()
    await client.close()
    assert client.closed is not None
    # Without a question nothing is reported as never asked for.
    client = await connect_refused(url, tickets)
    assert client is None


async def connect_refused(url: str, tickets: SessionStore) -> ClientConnection | None:
    """The session is used up: an ordinary dial, which fails by itself."""
    with pytest.raises(ConnectFailed):
        return await connect(url, tls=client_tls(), tickets=tickets, early_data=True)
    return None


@rule("AQ-0RTT-1")
@in_loop
async def test_silence_ends_with_the_handshake_timeout() -> None:
    tickets = MemorySessions()
    async with listening() as server:
        await visit(server, tickets)
        url, port = server.url, server.address[1]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
        deaf.bind(("127.0.0.1", port))
        client = await connect(
            url,
            tls=client_tls(),
            tickets=tickets,
            early_data=True,
            settings=LinkSettings(handshake_timeout=0.2),
        )
        await client.entrypoint.send(b"is anyone there?")
        with pytest.raises(ConnectFailed, match="no reply"):
            await client.accepted()
        await client.close()


@rule("AQ-0RTT-2")
@in_loop
async def test_what_was_rejected_is_not_repeated_to_a_server_that_is_not_trusted() -> None:
    tickets = MemorySessions()
    async with listening() as server:
        await visit(server, tickets)
        port = server.address[1]
    other = ServerTls.self_signed()
    async with serve("127.0.0.1", port, tls=other, limits=EARLY) as impostor:
        client = await connect(impostor.url, tls=client_tls(), tickets=tickets, early_data=True)
        await client.entrypoint.send(b"a secret")
        with pytest.raises(TlsFailed) as failed:
            await client.accepted()
        assert failed.value.subclass == "UNKNOWN_CA"
        await client.close()
        assert impostor.listener.counts.ready == 0
        assert client.early_data is None
