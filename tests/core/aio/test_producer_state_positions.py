"""A producer asks where its channel stands: connections that go in between, and bad answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aqueduct_core.aio.connection import ServerConnection
from aqueduct_core.aio.halves import Receiver, Sender
from aqueduct_core.aio.serve import Server, serve
from aqueduct_core.aqueduct.conventions.headers import (
    POSITIONS,
    TELLS,
    read_channel,
    read_connection,
    read_position_of,
)
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition, to_payload
from aqueduct_core.errors import ProtocolViolation
from tests.core.aio.storing import producer
from tests.support.event_loop import in_loop, server_tls


@asynccontextmanager
async def telling() -> AsyncIterator[Server]:
    """A server that says that it tells positions; the test gives the answers."""
    async with serve("127.0.0.1", 0, tls=server_tls(), headers=((TELLS, POSITIONS),)) as server:
        yield server


async def question(served: ServerConnection, name: str = "cpu") -> Sender:
    message = await served.entrypoint.receive()
    (half,) = message.attachments
    assert isinstance(half, Sender)
    assert message.payload == b""
    assert read_position_of(half.headers) == name
    return half


async def attached(served: ServerConnection) -> Receiver:
    (half,) = (await served.entrypoint.receive()).attachments
    assert isinstance(half, Receiver)
    return half


@in_loop
async def test_a_channel_goes_on_where_the_server_says_over_lost_connections() -> None:
    async with telling() as server, producer(server.url) as producing:
        cpu = producing.channel("cpu")
        sending = asyncio.ensure_future(cpu.send(b"a"))
        looking = asyncio.ensure_future(producing.position("cpu"))
        first = await server.accept()
        await question(first)
        first.abort("before the answer")
        second = await server.accept()
        stands = ChannelPosition("cpu", 7, 3, False, ((0, 7),))
        for _ in range(2):  # the channel's question, and that of the program
            await (await question(second)).send(to_payload(stands))
        assert await looking == stands
        assert await sending == 7
        receiver = await attached(second)
        claims = read_channel(receiver.headers)
        assert (claims.sequence_start, claims.run_start) == (7, 7)
        assert (await receiver.receive()).payload == b"a"
        await cpu.flush()
        second.abort("behind the first ack")
        third = await server.accept()
        assert await cpu.send(b"b") == 8
        receiver = await attached(third)  # no question any more: the run has the channel
        claims = read_channel(receiver.headers)
        assert (claims.sequence_start, claims.run_start) == (8, 7)
        runs = {read_connection(each.headers).run for each in (first, second, third)}
        assert len(runs) == 1
        assert None not in runs
        assert (await receiver.receive()).payload == b"b"
        await cpu.finish()
        assert cpu.statistics.repeated == 0


@pytest.mark.parametrize("payload", [b"", b'{"v":1}', None])
@in_loop
async def test_an_answer_that_is_none_ends_the_producer(payload: bytes | None) -> None:
    """To guess a number would be to lose or to double something."""
    async with telling() as server:
        producing = producer(server.url)
        await producing.open()
        cpu = producing.channel("cpu")
        sending = asyncio.ensure_future(cpu.send(b"a"))
        served = await server.accept()
        answer = await question(served)
        if payload is None:
            await answer.finish()
        else:
            await answer.send(payload)
        with pytest.raises(ProtocolViolation, match="does not say where channel 'cpu' stands"):
            await sending
        await producing.cancel()
