"""Reading a media: its order, its ends, and a program that is slow."""

from __future__ import annotations

import pytest

from aqueduct_core.errors import ChannelEnded
from aqueduct_core.quicr.config import QuicrConfig
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.media.reception import GapReason
from tests.core.aio.quicr.scene import net, publish, read_all
from tests.core.quicr.ends import media
from tests.support.event_loop import eventually, in_loop
from tests.support.proxy import Impairment
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen


@in_loop
@rule("Q-14")
async def test_a_url_that_nobody_posts_is_waited_for_as_long_as_is_asked() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        async with client.request("nobody", timeout=0.5) as reader:
            with pytest.raises(ChannelEnded, match=r"NO_REPLY.*'nobody'.*came in 0.5 s"):
                await anext(reader)


@in_loop
async def test_a_timeout_begins_anew_with_each_object() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        async with (
            client.request("slow", timeout=0.5) as reader,
            client.publish("slow") as publisher,
        ):
            for number in range(4):
                await publisher.send(b"x")
                assert (await anext(reader)).object == number
                await let_happen(0.3)


@in_loop
async def test_a_timeout_does_not_wait_for_the_way_of_what_is_published_beside() -> None:
    async with net(Impairment(delay=0.02, rate=125_000, queue=12_000)) as net_:
        await net_.origin()
        client = await net_.client(config=QuicrConfig())
        reader = client.request("nobody", timeout=0.5)
        async with client.publish("a", max_queued=1 << 30) as publisher:
            for _ in range(600):
                await publisher.send(bytes(1_000))
            with pytest.raises(ChannelEnded, match="NO_REPLY"):
                await anext(reader)
            assert publisher.queued > 0
            assert publisher.pressure.delay > 0.1


@in_loop
@rule("Q-16")
async def test_objects_before_the_beginning_that_is_asked_for_are_left_out() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        await publish(client, "a", media(3, 3))
        later = {position: each for position, each in media(3, 3).items() if position >= (1, 1)}
        for datagram in (False, True):
            reader = client.request("a", datagram=datagram, begin=Position(1, 1))
            assert await read_all(reader) == later


@in_loop
@rule("Q-6", "Q-7")
async def test_a_reader_that_leaves_is_forgotten_by_the_server() -> None:
    async with net() as net_:
        server = await net_.origin()
        client = await net_.client()
        async with client.publish("a") as publisher:
            async with client.request("a") as reader:
                await publisher.send(b"x")
                assert (await anext(reader)).payload == b"x"
                await eventually(lambda: server.counts()[0].readers == 1)
            await eventually(lambda: server.counts()[0].readers == 0)
            with pytest.raises(StopAsyncIteration):
                await anext(reader)


@in_loop
@rule("Q-8", "Q-30")
async def test_an_end_that_nobody_named_is_told() -> None:
    """Of a server that ends the stream of a media behind a whole object, and says no more."""
    async with net() as net_:
        server = await net_.origin()
        client = await net_.client()
        async with client.publish("a") as publisher, client.request("a") as reader:
            await publisher.send(b"x")
            assert (await anext(reader)).payload == b"x"
            assert reader.sure
            for engine, driver in server._drivers.items():
                engine.cancel(reader._stream, driver.now())
                driver.kick()
            with pytest.raises(StopAsyncIteration):
                await anext(reader)
            assert (reader.final, reader.sure) == ((0, 1), False)


@in_loop
async def test_a_program_that_does_not_read_has_the_stream_wait() -> None:
    async with net() as net_:
        server = await net_.origin()
        client = await net_.client()
        objects = media(400, size=60_000)
        reader = client.request("a")
        await publish(client, "a", objects)
        await eventually(lambda: reader._bytes > 4 << 20)
        await let_happen(1)
        assert reader._bytes < 10 << 20
        assert server.counts()[0].readers == 1
        assert await read_all(reader) == objects


@in_loop
@rule("Q-9")
async def test_datagrams_that_nobody_reads_are_told_as_gaps() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        objects = media(300, size=60_000)
        reader = client.request("a", datagram=True, hole_timeout=0.2)
        await publish(client, "a", objects)
        await eventually(lambda: reader.final is not None and reader._over)
        got = {each.position: each.payload async for each in reader}
        missing = [gap for gap in reader.gaps if gap.reason is GapReason.TIME]
        assert missing == reader.gaps
        assert missing
        told = sum(gap.missing.stop.object - gap.missing.start.object for gap in missing)
        assert len(got) + told == len(objects)
        assert all(objects[position][1] == payload for position, payload in got.items())


@in_loop
async def test_an_object_that_is_too_large_is_an_error_of_its_reader_alone() -> None:
    """By name, and with what to raise; what came before it can be had."""
    async with net() as net_:
        await net_.origin()
        sender, client = (
            await net_.client(),
            await net_.client(config=QuicrConfig(max_object=9_000)),
        )
        bad, good = media(2) | {Position(0, 2): (0, bytes(9_001))}, media(3, size=5_000)
        await publish(sender, "bad", bad)
        await publish(sender, "good", good)
        reader = client.request("bad")
        assert [(await anext(reader)).object for _ in range(2)] == [0, 1]
        text = r"TOO_LARGE.*object \(0, 2\) of the media 'bad' at .* larger.* Raise max_object"
        with pytest.raises(ChannelEnded, match=text):
            await anext(reader)
        assert await read_all(client.request("good")) == good
