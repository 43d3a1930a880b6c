"""A connection of a client, and how it ends."""

from __future__ import annotations

import pytest

from aqueduct_core.aio.quicr import client as quicr
from aqueduct_core.errors import ChannelEnded, ConnectFailed, InvalidOption
from aqueduct_core.quicr.faults import MediaError
from tests.core.aio.quicr.scene import client_of, net, publish, read_all
from tests.core.quicr.ends import media
from tests.support.event_loop import client_tls, eventually, in_loop
from tests.support.rules import rule


@in_loop
async def test_what_is_open_ends_with_the_server() -> None:
    async with net() as net_:
        server = await net_.origin()
        async with client_of(server.url) as client:
            reader, urls = client.request("a"), client.subscribe("")
            publisher = client.publish("b")
            await publisher.send(b"x")
            await eventually(lambda: server.connections == 1 and len(server.counts()) == 2)
            await server.close()
            lost = r"LOST.*the server closes"
            with pytest.raises(ChannelEnded, match=lost):
                await anext(reader)
            with pytest.raises(ChannelEnded, match=lost):
                assert [await anext(urls) for _ in range(3)] == []
            with pytest.raises(ChannelEnded, match=lost):
                await publisher.finish()
            assert "0 transfers" in repr(client)


@in_loop
async def test_nobody_listens() -> None:
    with pytest.raises(ConnectFailed, match="REFUSED"):
        async with client_of("quicr://127.0.0.1:9"):
            pass


@in_loop
async def test_other_protocols_are_refused() -> None:
    from aqueduct import connect

    async with net() as net_:
        server = await net_.origin()
        with pytest.raises(ConnectFailed, match="NO_REPLY"):
            await connect(server.url.replace("quicr", "aqueduct"), tls=client_tls())


@in_loop
async def test_urls_are_texts_or_bytes() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        await publish(client, "caf\u00e9/\\xff", media(1))
        assert await read_all(client.request(b"caf\xc3\xa9/\xff")) == media(1)
        with pytest.raises(InvalidOption, match="backslash is written twice"):
            client.request("a\\b")
        with pytest.raises(MediaError, match="2000 bytes"):
            client.publish("x" * 2_000)


@in_loop
@rule("Q-1")
async def test_each_thing_over_a_connection_of_its_own() -> None:
    async with net() as net_:
        server = await net_.origin()
        async with quicr.publish(server.url, "a", tls=client_tls()) as publisher:
            await publisher.send(b"one")
            await publisher.send(b"two", new_group=True)
            async with quicr.subscribe(server.url, tls=client_tls()) as urls:
                assert await anext(urls) == b"a"
        async with quicr.request(server.url, "a", tls=client_tls(), datagram=True) as reader:
            assert [each.payload async for each in reader] == [b"one", b"two"]
        await eventually(lambda: server.connections == 0)
