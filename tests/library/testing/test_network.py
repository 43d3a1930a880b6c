"""Servers and clients over links in memory: as over a real network, and as the seed says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import aqueduct
from aqueduct import ConnectFailed, ConnectionLost, Producer, channel
from aqueduct.testing import Network
from tests.core.aio.storing import Store
from tests.support.event_loop import in_loop
from tests.support.virtual_loop import let_happen, run_virtually


@in_loop
async def test_channels_travel_both_ways() -> None:
    network = Network()
    async with network.serve() as server, network.connect(server.url) as connection:
        served = await server.accept()
        sender, receiver = channel(name="orders")
        await connection.entrypoint.send(b"take this", attach=receiver)
        message = await served.entrypoint.receive()
        [theirs] = message.attachments
        assert isinstance(theirs, aqueduct.Receiver)
        assert theirs.name == "orders"
        assert (await sender.send_and_wait(b"first")).acked
        finishing = asyncio.ensure_future(sender.finish())
        assert [each.payload async for each in theirs] == [b"first"]
        await finishing
        assert repr(connection).startswith("<ClientConnection")
        assert connection.statistics.messages_sent == 2


@in_loop
async def test_large_ones_wait_for_who_reads() -> None:
    network = Network(delay=0.01, rate=10_000_000)
    async with network.serve() as server, network.connect(server.url) as connection:
        served = await server.accept()
        sending = asyncio.ensure_future(connection.entrypoint.send_many([bytes(100_000)] * 200))
        await let_happen()
        assert not sending.done()
        for _ in range(200):
            assert len((await served.entrypoint.receive()).payload) == 100_000
        assert await sending == 200


def unreliable(seed: int, **faults: float) -> tuple[list[int], float, int]:
    """What came of 300 messages, when, and how many are nacked."""

    async def run() -> tuple[list[int], float, int]:
        network = Network(seed=seed, **faults)  # type: ignore[arg-type]
        async with network.serve() as server, network.connect(server.url) as connection:
            served = await server.accept()
            connection.entrypoint.use("unreliable")
            for number in range(300):
                await connection.entrypoint.send(b"%d" % number)
            await connection.entrypoint.flush()
            nacked = connection.entrypoint.statistics.nacked
            finishing = asyncio.ensure_future(connection.entrypoint.finish())
            got = [int(message.payload) async for message in served.entrypoint]
            await finishing
            return got, asyncio.get_running_loop().time(), nacked

    return run_virtually(run())


def test_a_seed_is_a_run() -> None:
    faults = {"delay": 0.02, "jitter": 0.01, "loss": 0.1}
    got, at, nacked = unreliable(7, **faults)
    assert unreliable(7, **faults) == (got, at, nacked)
    assert unreliable(8, **faults) != (got, at, nacked)
    assert nacked == 300 - len(got) > 0
    assert got != sorted(got)
    assert len(got) == len(set(got))


def test_without_faults_all_come_in_order() -> None:
    got, _, nacked = unreliable(7)
    assert (got, nacked) == (list(range(300)), 0)


@in_loop
async def test_a_cut_loses_connections_and_an_unreachable_server_does_not_answer() -> None:
    network = Network(delay=0.01)
    async with network.serve() as server:
        connection = await network.connect(server.url)
        served = await server.accept()
        waiting = asyncio.ensure_future(served.entrypoint.receive())
        await let_happen()
        network.reachable = False
        network.cut()
        with pytest.raises(ConnectionLost, match="idle timeout"):
            await waiting
        await connection.wait_closed()
        with pytest.raises(ConnectFailed, match="while it is reachable"):
            await network.connect(server.url)
        network.reachable = True
        async with network.connect(server.url):
            await server.accept()
    with pytest.raises(ConnectFailed, match="no reply"):
        await network.connect(server.url)


@in_loop
async def test_a_producer_survives_it() -> None:
    network, store = Network(seed=3, delay=0.01), Store()
    async with network.serve() as server:
        taking = asyncio.ensure_future(store.take(server))
        async with Producer(server.url, producer="p-1", dialer=network.dial) as producer:
            async with producer.channel("readings") as readings:
                for number in range(50):
                    await readings.send(b"%d" % number)
                    if number % 20 == 10:
                        network.cut()
            assert producer.statistics.reconnects >= 1
    await taking
    await store.end()
    assert store.payloads("readings") == [b"%d" % number for number in range(50)]


@in_loop
async def test_a_server_refuses_by_its_token() -> None:
    network = Network()
    async with network.serve(authorize=aqueduct.bearer("right")) as server:
        with pytest.raises(aqueduct.AuthFailed):
            await network.connect(server.url, token="wrong")
        async with network.connect(server.url, token="right"):
            assert (await server.accept()).claims.token == "right"


@in_loop
async def test_the_end_of_one_is_told_to_the_other() -> None:
    network = Network(delay=0.01)
    for verb in ("close", "cancel"):
        async with network.serve() as server, network.connect(server.url) as connection:
            served: Any = await server.accept()
            await getattr(served, verb)(aqueduct_code := 5_000, "over")
            await connection.wait_closed()
            closed = connection.closed
            assert closed is not None
            assert (closed.code, closed.reason, closed.by_peer) == (aqueduct_code, "over", True)
