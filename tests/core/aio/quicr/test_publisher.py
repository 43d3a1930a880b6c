"""Publishing a media."""

from __future__ import annotations

import pytest

from aqueduct_core.aio.quicr.publisher import Publisher
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.quicr.config import DropSettings, QuicrConfig
from aqueduct_core.quicr.faults import MediaError
from tests.core.aio.quicr.scene import client_of, net
from tests.support.event_loop import eventually, in_loop
from tests.support.proxy import Impairment
from tests.support.rules import rule


@in_loop
async def test_publishers_wait_for_readers_that_do_not_take() -> None:
    async with net() as net_:
        server = await net_.origin()
        client = await net_.client()
        publisher = client.publish("a", max_queued=10_000)
        for _ in range(20):
            await publisher.send(bytes(9_000))
        assert publisher.queued <= 10_000
        await publisher.finish()
        [counts] = server.counts()
        assert (counts.objects, counts.bytes, counts.final) == (20, 180_000, True)


@in_loop
async def test_a_publication_that_fails_is_cancelled() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        publisher = client.publish("a")
        with pytest.raises(ZeroDivisionError):
            await fail_in(publisher)
        with pytest.raises(ChannelEnded, match=r"CANCELLED.*by this side"):
            await publisher.send(b"y")


async def fail_in(publisher: Publisher) -> None:
    async with publisher:
        await publisher.send(b"x")
        raise ZeroDivisionError


@in_loop
@rule("Q-37", "Q-38")
async def test_what_cannot_be_sent_changes_nothing() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        async with client.publish("a") as publisher:
            with pytest.raises(MediaError, match=r"object \(0, 0\) is empty"):
                await publisher.send(b"")
            with pytest.raises(MediaError, match="0xff is a hole"):
                await publisher.send(b"x", flags=0xFF)
            assert await publisher.send(b"x", new_group=True) == (0, 0)
            assert await publisher.send(b"y", new_group=True) == (1, 0)
        assert publisher.datagram is False or publisher.datagram is True
        with pytest.raises(MediaError, match="behind the end"):
            await publisher.send(b"z")


@in_loop
@rule("Q-34")
async def test_a_publisher_learns_what_finds_no_room() -> None:
    slow = Impairment(loss=0.0, delay=0.05)
    async with net(slow) as net_:
        await net_.origin()
        where = await net_.way_to(net_.servers[-1])
        config = QuicrConfig(dropping=DropSettings(threshold=0.01, interval=0.01))
        async with client_of(where, config=config) as client:
            async with client.publish("a", max_queued=1 << 30) as publisher:
                for number in range(300):
                    await publisher.send(bytes(20_000), flags=0x81 if number else 0)
                await eventually(lambda: publisher.pressure.level is not None)
            assert publisher.dropped > 0
            reader = client.request("a")
            holes = [each async for each in reader if each.payload is None]
            assert len(holes) == publisher.dropped
