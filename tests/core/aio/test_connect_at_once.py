"""A client that sends before the server has answered its connection headers, over real sockets."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.serve import bearer, serve
from aqueduct_core.aqueduct.config import DEFAULT_CONFIG, Config
from aqueduct_core.errors import AuthFailed
from aqueduct_core.transport.settings import LinkSettings
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.rules import rule

BURST = DEFAULT_CONFIG.initial_burst


@rule("AQ-HDR-6", "AQ-HDR-4")
@in_loop
async def test_the_first_messages_are_there_before_the_server_has_answered() -> None:
    verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), authorize=lambda headers: verdict) as server,
        connect(server.url, tls=client_tls(), at_once=True) as client,
    ):
        assert client.headers == ()
        assert await client.entrypoint.send(b"first") == 0
        await client._driver.writable(1)
        await eventually(lambda: all(driver.link.ready for driver in server.listener.drivers))
        engine = next(iter(server.listener.drivers)).engine
        await eventually(lambda: engine._ingress._held_bytes > 0)
        assert engine.statistics.messages_received == 0
        verdict.set_result(True)
        served = await server.accept()
        assert bytes((await served.entrypoint.receive()).payload) == b"first"
        assert await client.accepted() == client.headers


@rule("AQ-HDR-4")
@in_loop
async def test_a_server_that_refuses_has_processed_nothing() -> None:
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), authorize=bearer("right")) as server,
        connect(server.url, tls=client_tls(), token="wrong", at_once=True) as client,
    ):
        await client.entrypoint.send(b"first")
        with pytest.raises(AuthFailed):
            await client.accepted()
        with pytest.raises(ConnectionLost):
            await client.entrypoint.flush()
        assert client.entrypoint.statistics.acked == 0
        assert server.connections == set()


@rule("AQ-FLOW-9")
@in_loop
async def test_no_more_than_the_first_burst_leaves_before_the_answer() -> None:
    verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), authorize=lambda headers: verdict) as server,
        connect(server.url, tls=client_tls(), at_once=True) as client,
    ):
        sending = asyncio.create_task(client.entrypoint.send_many([bytes(1_000)] * 200))
        await eventually(lambda: client.bytes_delivered > BURST // 2)
        await client._driver.writable(1)
        assert not sending.done()
        assert client.entrypoint.statistics.sent <= BURST // 1_000
        verdict.set_result(True)
        served = await server.accept()
        assert await sending == 200
        received = 0
        async for batch in served.entrypoint.batches():
            received += batch.count
            if received == 200:
                break


@in_loop
async def test_a_server_that_does_not_answer_in_time() -> None:
    verdict: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    async with serve("127.0.0.1", 0, tls=server_tls(), authorize=lambda headers: verdict) as server:
        client = await connect(
            server.url, tls=client_tls(), at_once=True,
            settings=LinkSettings(handshake_timeout=2.0),
        )  # fmt: skip
        with pytest.raises(Exception, match="did not answer") as caught:
            await client.accepted()
        assert caught.value.name == "AQUEDUCT_CONNECT.TIMEOUT"  # type: ignore[attr-defined]
        await client.wait_closed()


@in_loop
async def test_without_flow_control_it_waits_for_the_answer() -> None:
    config = Config(flow_per_channel=None)
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), headers={"k": "v"}) as server,
        connect(server.url, tls=client_tls(), at_once=True, config=config) as client,
    ):
        assert (b"k", b"v") in client.headers
