"""Channels of a producer, as applications hold them."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.outcomes import (
    Misuse,
)
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import eventually, in_loop
from tests.support.virtual_loop import let_happen


@in_loop
async def test_unreliable_messages_are_sent_once_and_all_counted() -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            load = producing.channel("load", "unreliable")
            for i in range(50):
                await load.send(b"%d" % i)
            await let_happen(0.01)
            store.connections[-1].abort("test")
            await eventually(lambda: not producing.connected or len(store.connections) == 2)
            for i in range(50, 100):
                await load.send(b"%d" % i)
            await eventually(lambda: len(store.connections) == 2)
            await load.finish()
            counts = load.statistics
            assert counts.sent == 100
            assert counts.acked + counts.nacked + counts.unknown == 100
            assert counts.pending == 0
        assert len(set(store.unreliable)) == len(store.unreliable)


@pytest.mark.parametrize("headers", [0, 900])
@in_loop
async def test_what_is_kept_is_bounded_and_send_waits(headers: int) -> None:
    """Headers are kept, too."""
    async with storing() as (server, store):
        port = server.address[1]
        producing = producer(server.url, resend_buffer_bytes=20_000)
        await producing.open()
        cpu = producing.channel("cpu")
    sent = 0

    async def fill() -> None:
        nonlocal sent
        for _ in range(100):
            await cpu.send(bytes(1000 - headers), headers=[(b"k", bytes(headers))][:headers])
            sent += 1

    filling = asyncio.ensure_future(fill())
    for _ in range(50):
        await asyncio.sleep(0)
    assert 10 <= sent <= 20
    assert producing.statistics.buffered_bytes <= 20_000
    async with storing(port) as (_, second):
        await filling
        await producing.close()
        await eventually(lambda: len(second.rows) == 100)
    del store


@in_loop
async def test_names_are_used_once() -> None:
    async with storing() as (server, _), producer(server.url) as producing:
        producing.channel("cpu")
        with pytest.raises(Misuse, match="already"):
            producing.channel("cpu")
        with pytest.raises(Misuse, match="opened before"):
            await producing.open()
        assert "'p-1'" in repr(producing)


@in_loop
async def test_a_channel_can_start_at_a_number() -> None:
    async with storing() as (server, store):
        async with producer(server.url) as producing:
            cpu = producing.channel("cpu", start=100)
            assert await cpu.send(b"a") == 100
            await cpu.finish()
            assert (cpu.statistics.sent, cpu.statistics.acked_ranges) == (1, ((100, 101),))
        await eventually(lambda: store.rows == {("cpu", 100): b"a"})


@pytest.mark.parametrize("mode", ["ordered", "unreliable"])
@in_loop
async def test_a_payload_over_the_limit_is_refused_at_the_door(mode: str) -> None:
    async with storing() as (server, _), producer(server.url) as producing:
        cpu = producing.channel("cpu", mode)
        with pytest.raises(Misuse, match="16000001 bytes"):
            await cpu.send(bytes(16_000_001))
        await cpu.send(b"fine")
        await cpu.finish()
        assert cpu.statistics.sent == 1
