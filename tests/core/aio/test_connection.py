"""Connections: what they carry to and fro, and their end."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import ConnectionLost, ReceiverClosed
from aqueduct_core.aio.serve import serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.conventions.headers import CODE_ABORTED
from tests.core.aio.scene import scene
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen


@in_loop
async def test_headers_go_both_ways() -> None:
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), headers={"server": "s"}) as server,
        connect(server.url, tls=client_tls(), headers={"client": "c"}) as client,
    ):
        served = await server.accept()
        assert client.headers == ((b"server", b"s"),)
        assert served.headers == ((b"client", b"c"),)


@rule("AQ-LIFE-24")
@in_loop
async def test_close_waits_for_acks_and_finishes_the_entrypoint() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send_many([b"x" * 1000] * 2000)
        reading = asyncio.ensure_future(_read(far))
        await set_up.client.close()
        assert sender.statistics.acked == 2000
        closed = set_up.client.closed
        assert closed is not None
        assert (closed.code, closed.by_peer) == (0, False)
        assert [m async for m in set_up.served.entrypoint] == []
        count, outcome = await reading
        assert count == 2000
        assert isinstance(outcome, ConnectionLost)
        assert (outcome.code, outcome.by_peer) == (0, True)


async def _read(receiver: Receiver) -> tuple[int, ConnectionLost]:
    count = 0
    try:
        async for _ in receiver:
            count += 1
    except ConnectionLost as outcome:
        return count, outcome
    raise AssertionError("the channel ended in another way")


@rule("AQ-LIFE-12")
@in_loop
async def test_a_server_that_closes_acks_what_it_read() -> None:
    """Even when it closes within the ack delay, nothing that was read counts as nacked."""
    async with scene(config=Config(ack_delay=5.0)) as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send(b"read")
        await far.receive()
        await set_up.served.close()
        assert sender.statistics.acked == 1
        assert isinstance(sender.outcome, ReceiverClosed)


@in_loop
async def test_an_unacked_message_makes_close_give_up_in_time() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        await set_up.carry(receiver)
        # nobody reads: the far receiver's credit is used up, so acks for the rest never come
        filling = asyncio.ensure_future(_fill(sender))
        await let_happen()
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        await set_up.client.close(drain_timeout=0.2)
        closed = set_up.client.closed
        assert closed is not None
        assert closed.code in (0, CODE_ABORTED)


async def _fill(sender: Sender) -> None:
    while True:
        await sender.send(bytes(512 * 1024))


@rule("AQ-ERR-1", "AQ-ERR-3")
@in_loop
async def test_abort_ends_every_half_on_both_sides() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        waiting = asyncio.ensure_future(far.receive())
        set_up.client.abort("test")
        with pytest.raises(ConnectionLost, match="test"):
            await waiting
        with pytest.raises(ConnectionLost):
            await sender.send(b"x")
        with pytest.raises(ConnectionLost):
            await set_up.client.entrypoint.send(b"x")
        await set_up.served.wait_closed()
        closed = set_up.served.closed
        assert closed is not None
        assert (closed.code, closed.reason, closed.by_peer) == (CODE_ABORTED, "test", True)


@in_loop
async def test_messages_that_were_received_stay_readable_after_the_connection_is_gone() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send_many([b"x"] * 10)
        await eventually(lambda: far.statistics.received == 10)
        set_up.client.abort()
        await set_up.served.wait_closed()
        for _ in range(10):
            assert (await far.receive()).payload == b"x"
        with pytest.raises(ConnectionLost):
            await far.receive()


@in_loop
async def test_statistics_of_a_connection() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        await sender.send(bytes(10_000))
        await sender.flush()
        await set_up.client.entrypoint.flush()
        counts = set_up.client.statistics
        assert counts.bytes_sent > 10_000
        assert (counts.open_senders, counts.unacked) == (2, 0)
        assert set_up.served.statistics.open_receivers == 2
        del far
