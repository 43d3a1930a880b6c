"""A listener: which channels are taken, who works on them, and how it ends."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.aio.telehash.line import TelehashLine
from aqueduct_core.aio.telehash.listener import listen
from aqueduct_core.errors import ChannelEnded, InvalidOption
from aqueduct_core.transport.plain_udp.link import PlainSettings
from tests.core.aio.telehash.scene import CARRIERS, accepted, bodies, net
from tests.support.event_loop import eventually, in_loop, server_tls
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

CHANNELS = 1_000


@CARRIERS
@rule("T-2")
def test_a_type_that_is_not_taken_is_refused_at_once(carrier: str) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            listener = await net_.listen(types=["_a", "_b"])
            line = await net_.connect()
            loop = asyncio.get_running_loop()
            refused, taken = line.open("_c", b"x"), line.open("_b", b"y")
            begun = loop.time()
            with pytest.raises(ChannelEnded, match="by an error: unknown type") as failed:
                await refused.delivered()
            assert failed.value.name == "AQUEDUCT_CHANNEL.FAILED"
            assert loop.time() - begun < 0.5
            assert (await accepted(listener)).number == taken.number

    run()


@CARRIERS
@rule("P-3")
def test_a_thousand_channels_at_once(carrier: str) -> None:
    """On one line, all open together, each with its packets in order."""

    @in_loop
    async def run() -> None:
        got: dict[str, list[bytes]] = {}
        all_open = asyncio.Event()

        async def take(channel: TelehashChannel) -> None:
            first = await anext(channel)
            got[first.js["name"]] = [first.body]
            if len(got) == CHANNELS:
                all_open.set()
            await all_open.wait()
            got[first.js["name"]] += await bodies(channel)

        async def send(line: TelehashLine, name: int) -> None:
            async with line.open("_many", b"0", js={"name": str(name)}) as channel:
                for number in range(1, 5):
                    await channel.send(b"%d" % number)

        async with net(carrier) as net_:
            listener = await net_.listen(take)
            line = await net_.connect()
            await asyncio.gather(*(send(line, name) for name in range(CHANNELS)))
            assert len(got) == CHANNELS
            assert {tuple(each) for each in got.values()} == {(b"0", b"1", b"2", b"3", b"4", b"")}
            await eventually(lambda: not line.channels)
            assert [line.channels for line in listener.lines] == [0]

    run()


@in_loop
async def test_a_handler_that_fails_costs_its_channel_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def take(channel: TelehashChannel) -> None:
        async for packet in channel:
            if packet.body == b"bad":
                raise RuntimeError("what is this?")

    async with net() as net_:
        await net_.listen(take)
        line = await net_.connect()
        bad, good = line.open("_t", b"bad"), line.open("_t", b"good")
        with pytest.raises(ChannelEnded, match="by an error: failed"):
            await bad.delivered()
        await good.end()
        [logged] = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "'_t'" in logged.getMessage()


@in_loop
async def test_handlers_are_cancelled_when_it_closes() -> None:
    cancelled: list[int] = []

    async def take(channel: TelehashChannel) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(channel.number)

    async with net() as net_:
        listener = await net_.listen(take)
        line = await net_.connect()
        channels = [line.open("_t", b"x") for _ in range(3)]
        await let_happen(1)
        await listener.close()
        assert sorted(cancelled) == [1, 3, 5]
        for channel in channels:
            with pytest.raises(ChannelEnded, match="by an error: cancelled"):
                await channel.delivered()
        with pytest.raises(StopAsyncIteration):
            await anext(listener)
        assert not listener.lines


@in_loop
async def test_channels_that_nobody_takes_are_bounded() -> None:
    async with net() as net_:
        listener = await net_.listen(waiting=2)
        line = await net_.connect()
        channels = [line.open("_t", b"%d" % number) for number in range(3)]
        with pytest.raises(ChannelEnded, match="by an error: busy"):
            await channels[2].delivered()
        for number in range(2):
            assert (await anext(await accepted(listener))).body == b"%d" % number


@in_loop
async def test_a_channel_that_ended_before_it_was_taken_is_still_given() -> None:
    async with net() as net_:
        listener = await net_.listen()
        line = await net_.connect()
        ours = line.open("_t", b"x")
        await let_happen(1)
        ours.fail("changed my mind")
        await let_happen(1)
        with pytest.raises(ChannelEnded, match="changed my mind"):
            await bodies(await accepted(listener))


@in_loop
async def test_where_it_listens_and_what_it_says_of_itself() -> None:
    async with listen("telehash://127.0.0.1:0", tls=server_tls()) as listener:
        assert listener.url == f"telehash://127.0.0.1:{listener.address[1]}"
        assert (listener.fingerprint, listener.warning) == (server_tls().fingerprint, None)
        assert listener.url in repr(listener)
    async with listen("udp://[::1]:0") as listener:
        assert listener.url == f"udp://[::1]:{listener.address[1]}"
        assert (listener.fingerprint, listener.warning) == (None, None)
    with pytest.raises(InvalidOption, match="not a loopback address"):
        await listen("udp://0.0.0.0:0")
    async with listen("udp://0.0.0.0:0", udp=PlainSettings(trusted=True)) as listener:
        assert listener.warning is not None
        assert "neither encrypted nor authenticated" in listener.warning
    async with listen("telehash://0.0.0.0:0", tls=server_tls()) as listener:
        assert listener.warning is not None
        assert "may open channels" in listener.warning


@pytest.mark.parametrize("endpoint", ["telehash://127.0.0.1", "quicr://127.0.0.1:0", "udp://x"])
def test_an_address_that_cannot_be_listened_on(endpoint: str) -> None:
    with pytest.raises(InvalidOption, match="BAD_VALUE"):
        listen(endpoint)


@in_loop
async def test_without_a_certificate() -> None:
    with pytest.raises(InvalidOption, match="MISSING"):
        await listen("telehash://127.0.0.1:0")
