"""Connections: errors of dialling and listening, refusals, closing in good order and not."""

from __future__ import annotations

import asyncio
import datetime
import logging
import socket
import sys
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import ConnectionLost, ReceiverClosed
from aqueduct_core.aio.serve import bearer, serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.conventions.headers import CODE_ABORTED
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import AqueductError, AuthFailed, ConnectFailed, TlsFailed
from aqueduct_core.logs.refusals import LINES
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls, ServerTls
from aqueduct_core.transport.tls.development import issue, make_authority, self_signed
from tests.core.aio.scene import client_tls, eventually, in_loop, scene, server_tls
from tests.support.rules import rule


async def refused(url: str, **options: Any) -> AqueductError:
    options.setdefault("tls", client_tls())
    with pytest.raises(AqueductError) as caught:
        async with connect(url, **options):
            pass
    text = str(caught.value)
    assert text.startswith("[AQUEDUCT_")
    assert "\n" not in text
    return caught.value


@in_loop
async def test_nobody_listens() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    error = await refused(f"aqueduct://127.0.0.1:{port}")
    assert isinstance(error, ConnectFailed)
    assert str(port) in str(error)


@in_loop
async def test_somebody_else_listens_there() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        url = f"aqueduct://127.0.0.1:{sock.getsockname()[1]}"
        error = await refused(url, settings=LinkSettings(handshake_timeout=0.3))
    assert error.name == "AQUEDUCT_CONNECT.NO_REPLY"


@in_loop
async def test_a_port_that_is_in_use() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        with pytest.raises(ConnectFailed) as caught:
            await serve("127.0.0.1", server.address[1], tls=server_tls())
    assert str(server.address[1]) in str(caught.value)


@in_loop
async def test_certificates_that_are_not_trusted() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        stranger = ClientTls(ca_pem=make_authority().cert_pem)
        assert (await refused(server.url, tls=stranger)).name == "AQUEDUCT_TLS.UNKNOWN_CA"
        named = ClientTls(ca_pem=server_tls().cert_pem, server_name="other.example")
        assert (await refused(server.url, tls=named)).name == "AQUEDUCT_TLS.NAME_MISMATCH"
        async with connect(server.url, tls=ClientTls(insecure=True)) as connection:
            assert connection.fingerprint == server.fingerprint


@in_loop
async def test_an_expired_certificate_is_told_by_both_sides() -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=400)
    issued = self_signed(["127.0.0.1"], days=1, at=past)
    tls = ServerTls(cert_pem=issued.cert_pem, key_pem=issued.key_pem)
    with pytest.raises(TlsFailed) as caught:
        await serve("127.0.0.1", 0, tls=tls)
    assert caught.value.name == "AQUEDUCT_TLS.EXPIRED"


@in_loop
async def test_a_leaf_of_an_authority_is_trusted_through_it() -> None:
    authority = make_authority()
    leaf = issue(authority, ["127.0.0.1"])
    tls = ServerTls(cert_pem=leaf.cert_pem, key_pem=leaf.key_pem)
    async with (
        serve("127.0.0.1", 0, tls=tls) as server,
        connect(server.url, tls=ClientTls(ca_pem=authority.cert_pem)) as connection,
    ):
        assert connection.closed is None


@in_loop
async def test_a_wrong_token_is_refused_before_anything_is_seen() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls(), authorize=bearer("right")) as server:
        for token in (None, "wrong"):
            error = await refused(server.url, token=token)
            assert isinstance(error, AuthFailed)
            assert error.subclass == "REJECTED"
            assert "wrong" not in str(error)
        assert server.refused == 2
        assert not server.connections
        async with connect(server.url, tls=client_tls(), token="right", producer="p") as client:
            guest = await server.accept()
            assert guest.claims.producer == "p"
            assert guest.claims.token == "right"
            assert client.closed is None


@in_loop
async def test_authorize_may_be_a_coroutine_and_give_a_reason() -> None:
    seen: list[Headers] = []

    async def authorize(headers: Headers) -> bool | str:
        await asyncio.sleep(0)
        seen.append(headers)
        return "not on a Sunday" if len(seen) == 1 else True

    async with serve("127.0.0.1", 0, tls=server_tls(), authorize=authorize) as server:
        error = await refused(server.url, headers={"k": "v"})
        assert "not on a Sunday" in str(error)
        async with connect(server.url, tls=client_tls()) as client:
            assert client.closed is None
    assert seen == [((b"k", b"v"),), ()]


@in_loop
async def test_an_authorize_that_fails_refuses(caplog: pytest.LogCaptureFixture) -> None:
    def authorize(headers: Headers) -> bool:
        raise ZeroDivisionError

    with caplog.at_level(logging.CRITICAL, "aqueduct_core.aio.serve"):
        async with serve("127.0.0.1", 0, tls=server_tls(), authorize=authorize) as server:
            assert isinstance(await refused(server.url), AuthFailed)


@in_loop
async def test_headers_go_both_ways() -> None:
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), headers={"server": "s"}) as server,
        connect(server.url, tls=client_tls(), headers={"client": "c"}) as client,
    ):
        guest = await server.accept()
        assert client.headers == ((b"server", b"s"),)
        assert guest.headers == ((b"client", b"c"),)


@in_loop
async def test_refusals_are_logged_in_one_line_with_a_bound_and_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def verdict(headers: Headers) -> str:
        return "no: " + dict(headers)[b"why"].decode()

    caplog.set_level(logging.INFO, "aqueduct_core.aio.serve")
    attempts = LINES + 3
    async with serve("127.0.0.1", 0, tls=server_tls(), authorize=verdict) as server:
        for _ in range(attempts):
            await refused(server.url, headers={"why": "a\nforged line"})
        assert server.refused == attempts
    lines = [line for line in caplog.messages if "refused: no" in line]
    assert len(lines) == LINES
    assert all(line.endswith(r"refused: no: a\nforged line") for line in lines)
    assert "connections refused: 3 more in the last 10 s, without a line each" in caplog.messages


@in_loop
async def test_connections_that_nobody_accepts_have_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys.modules[serve.__module__], "BACKLOG", 2)
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        first = await connect(server.url, tls=client_tls())
        second = await connect(server.url, tls=client_tls())
        error = await refused(server.url)
        assert error.name == "AQUEDUCT_CONNECT.NO_REPLY"
        assert "too many connections wait" in str(error)
        await server.accept()
        third = await connect(server.url, tls=client_tls())
        for connection in (first, second, third):
            await connection.close()


@in_loop
async def test_garbage_on_the_port_hurts_nobody() -> None:
    async with scene() as set_up:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for i in range(200):
                sock.sendto(bytes([i % 256]) * (i * 7 % 1400), set_up.server.address)
        await set_up.client.entrypoint.send(b"still here")
        assert (await set_up.guest.entrypoint.receive()).payload == b"still here"


@rule("AQ-LIFE-24")
@in_loop
async def test_close_waits_for_acks_and_finishes_the_entrypoint() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send_many([b"x" * 1000] * 2000)
        reading = asyncio.ensure_future(_read(far))
        await set_up.client.close()
        assert sender.statistics.acked == 2000
        closed = set_up.client.closed
        assert closed is not None
        assert (closed.code, closed.by_peer) == (0, False)
        assert [m async for m in set_up.guest.entrypoint] == []
        count, outcome = await reading
        assert count == 2000
        assert isinstance(outcome, ConnectionLost)
        assert (outcome.code, outcome.by_peer) == (0, True)


async def _read(receiver: Receiver) -> tuple[int, ConnectionLost]:
    count = 0
    try:
        async for _ in receiver:
            count += 1
    except ConnectionLost as outcome:
        return count, outcome
    raise AssertionError("the channel ended in another way")


@rule("AQ-LIFE-12")
@in_loop
async def test_a_server_that_closes_acks_what_it_read() -> None:
    """Even when it closes within the ack delay, nothing that was read counts as nacked."""
    async with scene(config=Config(ack_delay=5.0)) as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send(b"read")
        await far.receive()
        await set_up.guest.close()
        assert sender.statistics.acked == 1
        assert isinstance(sender.outcome, ReceiverClosed)


@in_loop
async def test_an_unacked_message_makes_close_give_up_in_time() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        await set_up.carry(receiver)
        # nobody reads: the far receiver's credit is used up, so acks for the rest never come
        filling = asyncio.ensure_future(_fill(sender))
        await _still(sender)
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        await set_up.client.close(drain_timeout=0.2)
        closed = set_up.client.closed
        assert closed is not None
        assert closed.code in (0, CODE_ABORTED)


async def _fill(sender: Sender) -> None:
    while True:
        await sender.send(bytes(512 * 1024))


async def _still(sender: Sender) -> None:
    last = -1
    while last != sender.statistics.sent:
        last = sender.statistics.sent
        await asyncio.sleep(0.2)


@rule("AQ-ERR-1", "AQ-ERR-3")
@in_loop
async def test_abort_ends_every_half_on_both_sides() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        waiting = asyncio.ensure_future(far.receive())
        set_up.client.abort("test")
        with pytest.raises(ConnectionLost, match="test"):
            await waiting
        with pytest.raises(ConnectionLost):
            await sender.send(b"x")
        with pytest.raises(ConnectionLost):
            await set_up.client.entrypoint.send(b"x")
        await set_up.guest.wait_closed()
        closed = set_up.guest.closed
        assert closed is not None
        assert (closed.code, closed.reason, closed.by_peer) == (CODE_ABORTED, "test", True)


@in_loop
async def test_a_block_that_raises_aborts() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        with pytest.raises(ZeroDivisionError):
            async with connect(server.url, tls=client_tls()):
                raise ZeroDivisionError
        guest = await server.accept()
        await guest.wait_closed()
        assert guest.closed is not None
        assert guest.closed.code == CODE_ABORTED
        assert not server.connections


@in_loop
async def test_messages_that_were_received_stay_readable_after_the_connection_is_gone() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send_many([b"x"] * 10)
        await eventually(lambda: far.statistics.received == 10)
        set_up.client.abort()
        await set_up.guest.wait_closed()
        for _ in range(10):
            assert (await far.receive()).payload == b"x"
        with pytest.raises(ConnectionLost):
            await far.receive()


@in_loop
async def test_a_server_ends_its_iteration_when_it_closes() -> None:
    server = await serve("127.0.0.1", 0, tls=server_tls())
    seen: list[int] = []

    async def accept() -> None:
        async for connection in server:
            seen.append(connection.id)

    accepting = asyncio.ensure_future(accept())
    connection = await connect(server.url, tls=client_tls())
    await eventually(lambda: bool(seen))
    await server.close()
    await accepting
    await connection.wait_closed()
    assert connection.closed is not None
    assert connection.closed.code == 0
    await connection.close()
    assert repr(connection).endswith("closed with code 0>")


@in_loop
async def test_statistics_of_a_connection() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        await sender.send(bytes(10_000))
        await sender.flush()
        await set_up.client.entrypoint.flush()
        counts = set_up.client.statistics
        assert counts.bytes_sent > 10_000
        assert (counts.open_senders, counts.unacked) == (2, 0)
        assert set_up.guest.statistics.open_receivers == 2
        del far
