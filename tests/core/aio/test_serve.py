"""Listening: who may connect, and how many; the end of it."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.serve import bearer, serve
from aqueduct_core.engine.message_batch import Headers
from aqueduct_core.errors import AuthFailed, ConnectFailed
from aqueduct_core.logs.refusals import LINES
from tests.core.aio.scene import refused, scene
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls


@in_loop
async def test_a_port_that_is_in_use() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        with pytest.raises(ConnectFailed) as caught:
            await serve("127.0.0.1", server.address[1], tls=server_tls())
    assert str(server.address[1]) in str(caught.value)


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
            served = await server.accept()
            assert served.claims.producer == "p"
            assert served.claims.token == "right"
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
        assert (await set_up.served.entrypoint.receive()).payload == b"still here"


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
async def test_a_server_that_everybody_can_reach_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    for host, authorize in (("127.0.0.1", None), ("0.0.0.0", bearer("t"))):
        async with serve(host, 0, tls=server_tls(), authorize=authorize):
            assert not caplog.records
    async with serve("0.0.0.0", 0, tls=server_tls()) as server:
        assert f"everybody may connect to {server.url}" in caplog.text
