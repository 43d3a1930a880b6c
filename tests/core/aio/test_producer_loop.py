"""The connections of a producer: found again, given up, refused for good."""

from __future__ import annotations

import asyncio
import re

import pytest

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Receiver
from aqueduct_core.aio.outcomes import (
    ConnectionLost,
    ReceiverClosed,
)
from aqueduct_core.aio.serve import bearer, serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.errors import AuthFailed, ConnectFailed, SinkFailed
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import eventually, in_loop, server_tls
from tests.support.ports import free_port


@in_loop
async def test_a_server_that_comes_back_is_found_again() -> None:
    async with storing() as (server, store):
        port = server.address[1]
        producing = producer(server.url)
        await producing.open()
        cpu = producing.channel("cpu")
        await cpu.send(b"0")
        await cpu.flush()
    assert store.payloads("cpu") == [b"0"]
    await eventually(lambda: not producing.connected)
    assert await cpu.send(b"1") == 1
    assert await cpu.send(b"2") == 2
    async with storing(port) as (_, second):
        await cpu.finish()
        await producing.close()
        await eventually(lambda: len(second.rows) == 2)
        assert second.rows == {("cpu", 1): b"1", ("cpu", 2): b"2"}


@in_loop
async def test_it_gives_up_after_a_while_with_the_reason_and_the_count() -> None:
    url = f"aqueduct://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectFailed, match=r"gave up after 0\.1 s") as caught:
        async with producer(url, give_up_after=0.1):
            pass
    assert "with 0 messages not acked" in str(caught.value)

    async with storing() as (server, _):
        producing = producer(server.url, give_up_after=0.1)
        await producing.open()
        cpu = producing.channel("cpu")
        await cpu.flush()
    await eventually(lambda: not producing.connected)
    await cpu.send(b"x")
    with pytest.raises(ConnectFailed, match="with 1 messages not acked"):
        await cpu.finish()
    with pytest.raises(ConnectFailed):
        await cpu.send(b"y")
    assert cpu.statistics.pending == 1
    with pytest.raises(ConnectFailed):
        producing.channel("other")
    await producing.cancel()


@in_loop
async def test_a_refusal_is_final() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls(), authorize=bearer("right")) as server:
        with pytest.raises(AuthFailed):
            async with producer(server.url, token="wrong"):
                pass


@in_loop
async def test_the_first_connection_may_be_wanted_at_once() -> None:
    url = f"aqueduct://127.0.0.1:{free_port()}"
    with pytest.raises(ConnectFailed):
        async with producer(url, wait_for_server=False):
            pass


@in_loop
async def test_a_producer_that_has_given_up_dials_no_more() -> None:
    """It would send again what it has told its user is not delivered."""

    async def turn_away(served: ServerConnection) -> None:
        async for message in served.entrypoint:
            for half in message.attachments:
                await half.close() if isinstance(half, Receiver) else half.cancel()

    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        producing = producer(server.url)
        await producing.open()
        served = await server.accept()
        turning = asyncio.ensure_future(turn_away(served))
        producing.channel("cpu")
        await producing._state.changed.until(lambda: producing.failure is not None)
        assert isinstance(producing.failure, ReceiverClosed)
        assert producing._loop._task is not None
        await producing._loop._task
        with pytest.raises(ConnectionLost):
            await turning
        await producing.cancel()


@in_loop
async def test_it_gives_up_where_a_message_is_over_a_limit_of_the_server() -> None:
    """Sent again, it would end each connection; what was sent before it is stored."""
    small = Config(max_headers_bytes=1_000)
    async with storing(config=small) as (server, store):
        producing = producer(server.url)
        await producing.open()
        cpu = producing.channel("cpu")
        await cpu.send(b"before")
        await cpu.flush()
        await cpu.send(b"x", headers=[("k", bytes(2_000))])
        with pytest.raises(SinkFailed) as caught:
            await cpu.flush()
        assert caught.value.subclass == "MESSAGE_TOO_LARGE"
        assert re.search(r"header bytes of 20\d\d, limit 1000", caught.value.what)
        assert "raise that limit" in caught.value.remedy
        assert len(store.connections) == 1
        await producing.cancel()
    assert store.payloads("cpu") == [b"before"]
