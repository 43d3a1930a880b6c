"""Each way in which a channel ends is an outcome of its own on both halves; never a timeout."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import (
    Cancelled,
    ConnectionLost,
    Finished,
    LostInTransit,
    Misuse,
    Outcome,
    Overflowed,
    ReceiverClosed,
)
from aqueduct_core.aio.serve import serve
from aqueduct_core.aqueduct.config import AckMode, Config
from tests.core.aio.scene import Scene, scene
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.proxy import Impairment, Proxy
from tests.support.rules import rule

LARGE = 700
"""Bytes of a payload that makes a packet large; the proxy loses large packets only."""


@asynccontextmanager
async def behind_a_proxy(server_config: Config | None = None) -> AsyncIterator[tuple[Scene, Proxy]]:
    async with serve("127.0.0.1", 0, tls=server_tls(), config=server_config) as server:
        proxy = Proxy(server.address, Impairment(), seed=1)
        _, port = await proxy.open()
        try:
            async with connect(f"aqueduct://127.0.0.1:{port}", tls=client_tls()) as client:
                yield Scene(server, client, await server.accept()), proxy
        finally:
            proxy.close()


@rule("AQ-LOST-3", "AQ-LOST-4", "AQ-SEND-11")
@in_loop
async def test_a_carrier_that_the_network_drops_loses_its_channels_and_theirs() -> None:
    async with behind_a_proxy() as (set_up, proxy):
        carrier, carrier_receiver = channel("unreliable")
        (far,) = await set_up.carry(carrier_receiver)
        assert isinstance(far, Receiver)
        sender, receiver = channel()
        back, back_receiver = channel()
        child, child_receiver = channel()
        proxy.impairment = Impairment(loss=1.0, only_above=LARGE)
        await carrier.send(bytes(LARGE), attach=[receiver, back])
        assert proxy.counts["up"].dropped == 0
        await sender.send(b"on the lost one", attach=child_receiver)
        with pytest.raises(LostInTransit):
            await back_receiver.receive()
        assert proxy.counts["up"].dropped == 1
        for half in (sender, child):
            await eventually(lambda half=half: half.outcome is not None)
            for call in (half.send(b"x"), half.send_many([b"x"]), half.finish()):
                with pytest.raises(LostInTransit):
                    await call
        assert sender.statistics.pending == 0
        assert carrier.statistics.nacked == 1
        await carrier.send(b"the carrier goes on")
        assert (await far.receive()).payload == b"the carrier goes on"
        await eventually(lambda: set_up.served.statistics.open_receivers == 2)


async def _finish(here: Sender, far: Receiver, set_up: Scene) -> None:
    await here.finish()


async def _cancel(here: Sender, far: Receiver, set_up: Scene) -> None:
    await here.cancel()


async def _close(here: Sender, far: Receiver, set_up: Scene) -> None:
    await far.close()


async def _abort(here: Sender, far: Receiver, set_up: Scene) -> None:
    set_up.served.abort("over")


async def _leave(here: Sender, far: Receiver, set_up: Scene) -> None:
    await set_up.served.close()


@pytest.mark.parametrize(
    ("end", "of_sender", "of_receiver"),
    [
        (_finish, None, Finished),
        (_cancel, None, Cancelled),
        (_close, ReceiverClosed, Misuse),
        (_abort, ConnectionLost, ConnectionLost),
        (_leave, ReceiverClosed, ConnectionLost),
    ],
)
@in_loop
async def test_who_sees_what(
    end: Any, of_sender: type[Outcome] | None, of_receiver: type[Exception]
) -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        waiting = asyncio.ensure_future(far.receive())
        await asyncio.sleep(0)
        await end(sender, far, set_up)
        with pytest.raises(of_receiver):
            await waiting
        if of_sender is None:
            assert sender.outcome is None
            with pytest.raises(Misuse):
                await sender.send(b"x")
        else:
            await eventually(lambda: sender.outcome is not None)
            assert type(sender.outcome) is of_sender
            with pytest.raises(of_sender):
                await sender.send(b"x")


@in_loop
async def test_a_receiver_that_nobody_reads_overflows_its_own_limit() -> None:
    """The limit of the engine is lower than QUIC's window here, so the engine decides."""
    async with behind_a_proxy(Config(max_channel_queue_bytes=20_000)) as (set_up, _):
        sender, receiver = channel("unordered")
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        with pytest.raises(ReceiverClosed):
            await _fill(sender)
        taken: list[bytes] = []
        with pytest.raises(Overflowed, match=r"AQUEDUCT_CHANNEL\.OVERFLOW"):
            await _drain(far, taken)
        assert len(taken) == sender.statistics.acked > 0
        await set_up.client.entrypoint.send(b"the connection goes on")
        assert (await set_up.served.entrypoint.receive()).payload == b"the connection goes on"


async def _fill(sender: Sender) -> None:
    while True:
        await sender.send(bytes(5_000))
        await sender.flush()


async def _drain(receiver: Receiver, taken: list[bytes]) -> None:
    async for message in receiver:
        taken.append(message.payload)


@in_loop
async def test_a_queue_that_the_connection_does_not_take_is_lost_as_a_whole() -> None:
    """A local channel takes more than this connection; what it carries is given up too."""
    async with scene(config=Config(max_payload_bytes=1_000)) as set_up:
        sender, receiver = channel()
        inner, inner_receiver = channel()
        await sender.send(b"small")
        await sender.send(bytes(2_000))
        await sender.send(b"carrier", attach=inner_receiver)
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        assert isinstance(sender.outcome, LostInTransit)
        assert isinstance(inner.outcome, ReceiverClosed)
        with pytest.raises(Cancelled):
            await _drain(far, [])


@rule("AQ-LIFE-24")
@in_loop
async def test_a_cancel_just_before_a_close_arrives_over_a_bad_network() -> None:
    for _ in range(3):
        async with behind_a_proxy() as (set_up, proxy):
            sender, receiver = channel()
            (far,) = await set_up.carry(receiver)
            assert isinstance(far, Receiver)
            proxy.impairment = Impairment(loss=0.3, delay=0.001)
            await sender.cancel()
            await set_up.client.close()
            with pytest.raises(Cancelled):
                await far.receive()
            proxy.impairment = Impairment()
            set_up.served.abort()


@in_loop
async def test_what_came_from_one_peer_goes_on_to_another_by_passing_messages_on() -> None:
    async with scene() as near, scene() as onward:
        sender, receiver = channel(name="readings")
        (arrived,) = await near.carry(receiver)
        assert isinstance(arrived, Receiver)
        with pytest.raises(Misuse, match="pass on"):
            await onward.client.entrypoint.send(b"", attach=arrived)

        out, out_receiver = channel("ordered", name=arrived.name)
        (far,) = await onward.carry(out_receiver)
        assert isinstance(far, Receiver)

        async def pass_on() -> None:
            async with arrived, out:
                async for message in arrived:
                    await out.send(message.payload, headers=message.headers)

        passing = asyncio.ensure_future(pass_on())
        await sender.send_many([b"%d" % i for i in range(100)])
        await sender.finish()
        assert [m.payload async for m in far] == [b"%d" % i for i in range(100)]
        assert far.name == "readings"
        await passing


@in_loop
async def test_statistics_of_a_connection_count_messages() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send_many([b"x"] * 50)
        await sender.flush()
        assert set_up.client.statistics.messages_sent == 51
        there = set_up.served.statistics
        assert there.messages_received == 51
        assert there.queued_bytes >= 50
        assert len([await far.receive() for _ in range(50)]) == 50
        assert set_up.served.statistics.queued_bytes < there.queued_bytes


@in_loop
async def test_a_finish_over_messages_that_were_nacked_is_no_good_end() -> None:
    """The receiver read some, closed, and acked nothing: the peer's close nacks what was sent."""
    async with scene(server_config=Config(ack_mode=AckMode.ON_STORED)) as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await sender.send_many([b"message"] * 7)
        await far.receive()
        finishing = asyncio.ensure_future(sender.finish())
        await asyncio.sleep(0)
        await far.close()
        with pytest.raises(ReceiverClosed, match="7 messages not acked"):
            await finishing
        assert isinstance(sender.outcome, ReceiverClosed)
        assert sender.outcome.unacked == 7
        set_up.client.abort()  # nobody acks the carrier either


@in_loop
async def test_who_observes_a_sender_is_freed_with_it() -> None:
    """The observer holds the sender, as the sink's channels do; at the end nobody holds both."""

    class Observer:
        def __init__(self, sender: Sender) -> None:
            self.sender = sender
            sender.observe(self.settled, self.ended)

        def settled(self, reliable: bool, first: int, stop: int, acked: bool) -> None:
            pass

        def ended(self) -> None:
            pass

    for how in ("finish", "cancel"):
        sender, receiver = channel()
        observer = Observer(sender)
        await sender.send(b"message")
        await receiver.receive()
        await (sender.finish() if how == "finish" else sender.cancel())
        freed = weakref.ref(observer)
        del sender, observer
        gc.collect()
        assert freed() is None
