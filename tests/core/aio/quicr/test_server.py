"""Media over UDP: from publishers over origins and relays to readers, on good and bad networks."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.quicr.server import MediaServer
from aqueduct_core.errors import ChannelEnded
from tests.core.aio.quicr.scene import net, publish, read_all
from tests.core.quicr.ends import media
from tests.support.event_loop import eventually, in_loop
from tests.support.ports import free_port
from tests.support.proxy import Impairment
from tests.support.rules import rule

WAYS = pytest.mark.parametrize("datagram", [False, True], ids=["stream", "datagram"])
OBJECTS = media(7, 1, 9, size=1_700)
LOSSES = [0.0, 0.01, 0.05, 0.2]


def bad(loss: float) -> Impairment:
    return Impairment(loss=loss, duplicate=0.02, reorder=0.1, delay=0.002, hold=0.01)


@WAYS
@pytest.mark.parametrize("loss", LOSSES)
@rule("Q-8", "Q-9", "Q-12", "Q-31")
def test_what_is_read_of_an_origin_is_what_was_posted(datagram: bool, loss: float) -> None:
    @in_loop
    async def run() -> None:
        async with net(bad(loss)) as net_:
            await net_.origin()
            reader = await net_.client()
            waiting = asyncio.create_task(read_all(reader.request("a", datagram=datagram)))
            publisher = await net_.client()
            await publish(publisher, "a", OBJECTS, datagram=datagram)
            late = await read_all((await net_.client()).request("a", datagram=not datagram))
            assert await waiting == late == OBJECTS
            assert (sum(p.counts["down"].dropped for p in net_.proxies) > 0) is (loss >= 0.05)

    run()


@WAYS
@pytest.mark.parametrize("loss", LOSSES)
@rule("Q-21", "Q-26", "Q-28")
def test_the_same_through_two_relays_of_different_modes(datagram: bool, loss: float) -> None:
    @in_loop
    async def run() -> None:
        async with net(bad(loss)) as net_:
            origin = await net_.origin()
            near = await net_.relay(datagram=datagram)
            far = await net_.relay(datagram=not datagram)
            readers = [
                asyncio.create_task(
                    read_all((await net_.client(where)).request("a", datagram=mode))
                )
                for where in (origin, near, far)
                for mode in (False, True)
            ]
            publisher = await net_.client(far)
            await publish(publisher, "a", OBJECTS, datagram=datagram)
            for reader in readers:
                assert await reader == OBJECTS
            late = await net_.client(near)
            assert await read_all(late.request("a", datagram=datagram)) == OBJECTS

    run()


@in_loop
async def test_an_upstream_that_goes_away_is_dialled_again() -> None:
    async with net() as net_:
        origin = await net_.origin()
        relay = await net_.relay(datagram=False)
        reader = await net_.client(relay)
        got = asyncio.create_task(read_all(reader.request("a")))
        publisher = await net_.client(origin)
        async with publisher.publish("a") as publication:
            for position, (flags, payload) in OBJECTS.items():
                new_group = position.group > publication.next.group
                await publication.send(payload, flags=flags, new_group=new_group)
                if position in ((0, 3), (1, 0)):
                    await eventually(lambda: cut_upstream(relay))
        assert await got == OBJECTS


@in_loop
async def test_what_an_upstream_refuses_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with net() as net_:
        await net_.origin(max_subscriptions=1)
        relay = await net_.relay(datagram=False)
        client = await net_.client(relay)
        client.subscribe("a")
        client.subscribe(b"b\n")
        await eventually(lambda: "tried again" in caplog.text)
        upstream = net_.servers[0].url.removeprefix("quicr://")
        [line] = [line for line in caplog.messages if "tried again" in line]
        assert line == f"{upstream} has ended our subscribe of 'b\\x0a'; it is tried again"


@in_loop
async def test_what_the_upstream_never_got_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with net() as net_:
        nobody = f"127.0.0.1:{free_port()}"
        relay = await net_.relay(datagram=True, upstream=f"quicr://{nobody}", lifetime=1, linger=0)
        await publish(await net_.client(relay), "a", OBJECTS)
        await eventually(lambda: relay.counts() == [])
        assert f"'a' was posted here, and is forgotten before {nobody} had" in caplog.text


def cut_upstream(relay: MediaServer) -> bool:
    """Have the relay lose its connection to its upstream, if there is one."""
    upstream = [driver for engine, driver in relay._drivers.items() if engine._client]
    for driver in upstream:
        driver.abandon("cut")
    return bool(upstream)


@WAYS
@pytest.mark.parametrize("size", [70_000, 1_100_000])
@rule("Q-18")
def test_an_object_that_cannot_be_kept_is_told_to_its_publisher_and_in_the_log(
    size: int, datagram: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Who has sent all of it by then does not take it for the proof that it is here."""

    @in_loop
    async def run() -> None:
        async with net() as net_:
            await net_.origin(memory=1 << 16)
            client = await net_.client()
            with pytest.raises(ChannelEnded, match=r"CANCELLED.*ended by the receiver"):
                async with client.publish("big", datagram=datagram) as publisher:
                    await publisher.send(bytes(size))
            async with client.publish("small") as publisher:
                await publisher.send(b"small")

    run()
    told = "object (0, 0) of 'big' has more bytes than the whole memory of 65536 has: its post is"
    assert told in caplog.text
