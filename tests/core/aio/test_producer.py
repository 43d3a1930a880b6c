"""A producer over lost connections: everything once, in order, and counted."""

from __future__ import annotations

import pytest

from aqueduct_core.aio.halves import Receiver
from aqueduct_core.aio.outcomes import (
    Misuse,
)
from aqueduct_core.aio.serve import serve
from aqueduct_core.aqueduct.conventions.headers import read_channel
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import eventually, in_loop, server_tls
from tests.support.virtual_loop import let_happen


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_messages_arrive_once_and_are_counted(mode: str) -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu", mode)
            assert [await cpu.send(b"%d" % i) for i in range(10)] == list(range(10))
            assert await cpu.send(b"10", headers={"h": "v"}) == 10
            assert await cpu.send_many([b"%d" % i for i in range(11, 500)]) == 489
            await cpu.flush()
            counts = cpu.statistics
            assert (counts.sent, counts.acked, counts.pending) == (500, 500, 0)
            assert counts.acked_ranges == ((0, 500),)
            await cpu.finish()
            assert cpu.finished
            with pytest.raises(Misuse, match="finished"):
                await cpu.send(b"late")
        await eventually(lambda: len(store.rows) == 500)
        assert store.payloads("cpu") == [b"%d" % i for i in range(500)]
        assert ((b"h", b"v"),) in store.headers
        assert store.repeats == 0


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_lost_connections_lose_nothing_and_keep_the_numbers(mode: str) -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu", mode)
            disk = producing.channel("disk")
            for i in range(400):
                await cpu.send(b"%d" % i)
                await disk.send_many([b"d%d" % i, b"e%d" % i])
                if i % 100 == 50:
                    await let_happen(0.01)
                    store.connections[-1].abort("test")
                    await eventually(lambda n=i: len(store.connections) > n // 100 + 1)
            await cpu.finish()
            await disk.finish()
            totals = producing.statistics
            assert totals.reconnects == 4
            assert (totals.sent, totals.acked, totals.buffered_bytes) == (1200, 1200, 0)
            assert cpu.statistics.acked_ranges == ((0, 400),)
        await eventually(lambda: len(store.rows) == 1200)
        assert store.payloads("cpu") == [b"%d" % i for i in range(400)]
        assert len(store.payloads("disk")) == 800
        assert set(store.entry_starts) == {None}  # what carries channels is never a repeat


@in_loop
async def test_a_receiver_that_closes_gets_the_rest_again() -> None:
    async with serve("127.0.0.1", 0, tls=server_tls()) as server:
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu")
            await cpu.send(b"0")
            served = await server.accept()
            (first,) = (await served.entrypoint.receive()).attachments
            assert isinstance(first, Receiver)
            assert (await first.receive()).payload == b"0"
            await first.close()
            await cpu.send(b"1")
            (second,) = (await served.entrypoint.receive()).attachments
            assert isinstance(second, Receiver)
            start = read_channel(second.headers).sequence_start
            assert start == 1
            assert (await second.receive()).payload == b"1"
            await cpu.finish()
        assert producing.statistics.acked == 2
