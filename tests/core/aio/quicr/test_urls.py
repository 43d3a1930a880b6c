"""Hearing of URLs."""

from __future__ import annotations

import pytest

from tests.core.aio.quicr.scene import net, publish
from tests.core.quicr.ends import media
from tests.support.event_loop import in_loop
from tests.support.rules import rule


@in_loop
@rule("Q-22", "Q-24")
async def test_urls_are_told_through_a_relay() -> None:
    async with net() as net_:
        origin = await net_.origin()
        await net_.relay(datagram=True)
        publisher = await net_.client(origin)
        await publish(publisher, "a/1", media(1))
        client = await net_.client()
        async with client.subscribe("a/") as urls:
            assert await anext(urls) == b"a/1"
            await publish(publisher, "b/1", media(1))
            await publish(publisher, "a/2", media(1))
            assert await anext(urls) == b"a/2"
        with pytest.raises(StopAsyncIteration):
            await anext(urls)


@in_loop
@rule("Q-22", "Q-23", "Q-25")
async def test_each_url_is_told_once_and_not_when_it_is_only_asked_for() -> None:
    async with net() as net_:
        await net_.origin()
        client = await net_.client()
        client.request("a/asked")
        async with client.subscribe(b"a/") as urls:
            client.publish("a/posted")
            assert await anext(urls) == b"a/posted"
            client.publish("a/posted")
            client.publish("a/then")
            assert await anext(urls) == b"a/then"
        assert [url async for url in urls] == []
