"""Channels of a producer on one connection after the other: holes, and what goes out again."""

from __future__ import annotations

import asyncio
import random
from functools import partial

import pytest

from aqueduct_core.aio.outcomes import Misuse
from aqueduct_core.aio.producer import Producer
from aqueduct_core.transport.settings import LinkSettings
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import client_tls, eventually, in_loop
from tests.support.proxy import Impairment, Proxy
from tests.support.virtual_loop import let_happen


def acked_beyond(producing: Producer, count: int) -> bool:
    return producing.statistics.acked > count


def reconnected(producing: Producer, times: int) -> bool:
    return producing.statistics.reconnects >= times


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_a_hole_is_left_out_and_the_numbers_go_on_behind_it(mode: str) -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu", mode)
            await cpu.send_many([b"%d" % n for n in range(10)])
            cpu.skip_to(100)
            cpu.skip_to(100)
            assert await cpu.send(b"100") == 100
            cpu.skip_to(200)
            cpu.skip_to(300)
            assert await cpu.send(b"300", headers={"a": "b"}) == 300
            with pytest.raises(Misuse, match="has number 301"):
                cpu.skip_to(300)
            await cpu.flush()
            await cpu.stored(5)
            counts = cpu.statistics
            assert (counts.sent, counts.acked, counts.pending) == (12, 12, 0)
            assert counts.acked_ranges == ((0, 10), (100, 101), (300, 301))
            await cpu.finish()
            with pytest.raises(Misuse, match="finished"):
                cpu.skip_to(400)
        wanted = [*range(10), 100, 300]
        await eventually(lambda: len(store.rows) == 12)
        assert store.rows == {("cpu", n): b"%d" % n for n in wanted}
        assert store.repeats == 0


@in_loop
async def test_a_hole_is_declared_even_when_nothing_follows() -> None:
    async with storing() as (server, store), producer(server.url) as producing:
        cpu = producing.channel("cpu")
        await cpu.send(b"0")
        cpu.skip_to(50)
        await eventually(lambda: store.starts == [0, 50])
        assert cpu.stored_below == 50
        await cpu.finish()


@in_loop
async def test_holes_survive_lost_connections() -> None:
    chance = random.Random(3)
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu")
            wanted, number = [], 0
            for step in range(300):
                if chance.random() < 0.1:
                    number += chance.randrange(1, 50)
                    cpu.skip_to(number)
                assert await cpu.send(b"%d" % number) == number
                wanted.append(number)
                number += 1
                if step % 60 == 30:
                    await let_happen(0.02)
                    store.connections[-1].abort("test")
            await cpu.finish()
            assert cpu.statistics.sent == cpu.statistics.acked == 300
        await eventually(lambda: len(store.rows) == 300)
        assert sorted(n for _, n in store.rows) == wanted


@in_loop
async def test_fault_23_kept_bytes_and_counts_are_right_through_bad_networks() -> None:
    """A lossy proxy that goes dark for longer than the idle timeout, again and again."""
    limit, payload, total = 64_000, 1_000, 600
    async with storing() as (server, store):
        proxy = Proxy(server.address, Impairment(0.05, 0.05, 0.2, 0.001, 0.004), seed=11)
        host, port = await proxy.open()
        high = 0
        async with Producer(
            f"aqueduct://{host}:{port}",
            producer="p-1",
            tls=client_tls(),
            resend_buffer_bytes=limit,
            settings=LinkSettings(idle_timeout=0.4, handshake_timeout=0.5),
            first_wait=0.01,
            longest_wait=0.05,
            give_up_after=None,
        ) as producing:
            channels = [producing.channel("cpu"), producing.channel("disk", "unordered")]

            async def watch() -> None:
                nonlocal high
                while True:
                    high = max(high, producing.statistics.buffered_bytes)
                    await let_happen(0.001)

            async def feed(index: int) -> None:
                for number in range(total):
                    await channels[index].send(number.to_bytes(4) + bytes(payload - 4))

            watching = asyncio.ensure_future(watch())
            feeding = [asyncio.ensure_future(feed(index)) for index in range(2)]
            for lost in range(1, 4):
                mark = producing.statistics.acked
                await eventually(partial(acked_beyond, producing, mark + 100))
                proxy.dark = True
                await eventually(partial(reconnected, producing, lost))
                proxy.dark = False
                await eventually(lambda: producing.connected)
            await asyncio.gather(*feeding)
            for each in channels:
                await each.finish()
            watching.cancel()
            totals = producing.statistics
            assert (totals.sent, totals.acked, totals.buffered_bytes) == (2 * total, 2 * total, 0)
            assert (totals.nacked, totals.unknown) == (0, 0)
            assert totals.reconnects >= 3
            assert totals.resent == sum(each.statistics.resent for each in channels)
            assert totals.resent >= store.repeats
            assert all(each.statistics.acked_ranges == ((0, total),) for each in channels)
        assert limit - 2 * payload < high <= limit
        proxy.close()
        for name in ("cpu", "disk"):
            got = store.payloads(name)
            assert [int.from_bytes(value[:4]) for value in got] == list(range(total))
