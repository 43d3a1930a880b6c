"""A peer that breaks the protocol costs its own connection, while media of others go on."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aqueduct_core.aio.quicr.client import QuicrClient
from aqueduct_core.engine.actions import SendDatagram
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.quicr.faults import INTERNAL_ERROR
from tests.core.aio.quicr.scene import Net, net, read_all
from tests.core.quicr.ends import media
from tests.core.quicr.raw import message
from tests.core.quicr.test_faults import AT_A_SERVER, ON_A_STREAM
from tests.support.event_loop import eventually, in_loop
from tests.support.rules import rule


def speak(client: QuicrClient, *parts: str, stream: int = 0) -> None:
    """Write bytes, in hex, past all that its engine would do."""
    for part in parts:
        client.engine._context.egress.write(stream, bytes.fromhex(part))
    client.driver.kick(urgent=True)


def whisper(client: QuicrClient, *parts: str) -> None:
    """The same in datagrams."""
    for number, part in enumerate(parts, 1_000):
        client.engine._context.egress._out.append(SendDatagram(bytes.fromhex(part), number))
    client.driver.kick(urgent=True)


async def thrown_out(client: QuicrClient) -> str:
    """The reason with which the server has closed the connection."""
    await eventually(lambda: client.driver.lost is not None)
    lost = client.driver.lost
    assert lost is not None
    assert (lost.code, lost.by_peer) == (INTERNAL_ERROR, True)
    assert lost.origin is CloseOrigin.TRANSPORT
    return lost.reason


async def accepted(client: QuicrClient) -> None:
    """Have a post on stream 0, of which nothing was sent."""
    publisher = client.publish("bad", datagram=False)
    await eventually(lambda: publisher.datagram is not None)


class Good:
    """A publisher and a reader beside it, with objects to and fro until `end`."""

    def __init__(self, net_: Net) -> None:
        self._net = net_
        self._objects = media(60)

    async def begin(self) -> None:
        reader, self._publisher = await self._net.client(), await self._net.client()
        self._reading = asyncio.create_task(read_all(reader.request("good", datagram=True)))
        self._publication = self._publisher.publish("good")
        self._rest = iter(self._objects.items())

    async def more(self) -> None:
        for _, (position, (flags, payload)) in zip(range(2), self._rest, strict=False):
            assert await self._publication.send(payload, flags=flags) == position

    async def end(self) -> None:
        for position, (flags, payload) in self._rest:
            assert await self._publication.send(payload, flags=flags) == position
        await self._publication.finish()
        assert await self._reading == self._objects


@in_loop
@rule("Q-4", "Q-5")
async def test_bad_messages_and_media_cost_their_connection_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL)
    async with net() as net_:
        server = await net_.origin()
        good = Good(net_)
        await good.begin()
        reasons = []
        for messages, expected in AT_A_SERVER.values():
            if not expected:
                continue  # of a peer that takes no datagrams, which this one does
            client = await net_.client()
            speak(client, *(message(each) for each in messages))
            reasons.append(await thrown_out(client))
            await good.more()
        for messages, _ in ON_A_STREAM.values():
            client = await net_.client()
            await accepted(client)
            speak(client, *messages)
            reasons.append(await thrown_out(client))
            await good.more()
        assert len({*reasons}) > 20
        await good.end()
        assert server.connections == 2


@in_loop
@rule("Q-5", "Q-10")
async def test_bad_datagrams_cost_their_connection_alone() -> None:
    async with net() as net_:
        server = await net_.origin()
        good = Good(net_)
        await good.begin()
        for data in ("7f" + "00" * 6, "00000001", "", "c000000040000000" + "00" * 6):
            client = await net_.client()
            whisper(client, data)
            assert "datagram" in await thrown_out(client)
            await good.more()
        await good.end()
        assert server.connections == 2
