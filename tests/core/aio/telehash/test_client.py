"""Lines, and what is asked over lines of their own."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator

import pytest

from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.aio.telehash.client import PacketContent, connect, exchange
from aqueduct_core.aio.telehash.client import open as open_channel
from aqueduct_core.errors import ChannelEnded, ConnectFailed, InvalidOption
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.faults import PacketTooLarge
from aqueduct_core.transport.plain_udp.link import PlainSettings
from tests.core.aio.telehash.scene import CARRIERS, accepted, bodies, net
from tests.support.event_loop import client_tls, eventually, in_loop
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

ANSWERS = 100


async def answer(channel: TelehashChannel) -> None:
    """A large answer to a small question."""
    async for packet in channel:
        for number in range(ANSWERS):
            await channel.send(bytes(1_000), js={"to": packet.js, "n": number})
        channel.acknowledge()
        await channel.end(packet.body)


@CARRIERS
@rule("P-3", "P-5")
def test_a_question_and_its_answers_in_one_call(carrier: str) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            listener = await net_.listen(answer)
            got = await exchange(
                listener.url, "_ask", [PacketContent(b"?", {"id": 7})], tls=client_tls()
            )
            assert [packet.js for packet in got[:-1]] == [
                {"to": {"id": 7}, "n": number} for number in range(ANSWERS)
            ]
            assert got[-1].body == b"?"
            assert got[-1].end

    run()


@in_loop
@rule("P-1", "T-6")
async def test_an_answer_that_fills_a_packet_and_comes_behind_the_ack_of_its_question() -> None:
    async with net("udp") as net_:
        listener = await net_.listen()
        line = await net_.connect()
        ours = line.open("_t", b"?")
        theirs = await accepted(listener)
        await anext(theirs)
        theirs.acknowledge()
        await ours.delivered()  # the ack has used up some of what a stranger may be sent
        whole = bytes(theirs._line.engine.limit - theirs._line.engine.packet_size())
        await theirs.send(whole)
        async with asyncio.timeout(5):
            assert (await anext(ours)).body == whole
        ours.acknowledge()
        await theirs.delivered()


@CARRIERS
def test_nothing_is_left_of_lines_that_are_over(carrier: str) -> None:
    seen: weakref.WeakSet[object] = weakref.WeakSet()

    async def remember(channel: TelehashChannel) -> None:
        seen.update([channel, channel._line, channel._line.engine])
        async for packet in channel:
            channel.acknowledge()
            await channel.end(packet.body)

    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            listener = await net_.listen(remember)
            for number in range(20):
                [answer] = await exchange(
                    listener.url, "_t", [b"%d" % number], tls=client_tls(), timeout=5
                )
                assert answer.body == b"%d" % number
            await let_happen(75)  # over UDP nobody says goodbye
            assert not listener.lines
            assert listener._listener.memory == 0
            assert not listener._tasks

    run()
    gc.collect()
    assert not seen


@in_loop
async def test_questions_may_come_one_by_one() -> None:
    async def count(channel: TelehashChannel) -> None:
        seen = 0
        async for packet in channel:
            seen += 1
            if packet.body == b"that is all":
                channel.acknowledge()
                await channel.end(b"%d" % seen)

    async def questions() -> AsyncIterator[bytes]:
        for number in range(200):
            await let_happen(0.01)
            yield b"%d" % number
        yield b"that is all"

    async with net() as net_:
        listener = await net_.listen(count)
        [last] = await exchange(listener.url, "_count", questions(), tls=client_tls())
        assert last.body == b"201"


@in_loop
async def test_an_exchange_ends_by_what_goes_wrong_in_it() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"first"
        raise RuntimeError("no more questions")

    async def silent(channel: TelehashChannel) -> None:
        async for _ in channel:
            pass

    async with net() as net_:
        listener = await net_.listen(silent)
        url, tls = listener.url, client_tls()
        with pytest.raises(RuntimeError, match="no more questions"):
            await exchange(url, "_t", broken(), tls=tls)
        with pytest.raises(PacketTooLarge):
            await exchange(url, "_t", [b"first", bytes(2_000)], tls=tls)
        with pytest.raises(ChannelEnded, match="NO_REPLY"):
            await exchange(url, "_t", [b"?"], tls=tls, timeout=1)
        await eventually(lambda: not listener.lines)
        await listener.close()
    async with net() as net_:
        listener = await net_.listen(answer)
        with pytest.raises(ChannelEnded, match="more than 1500 bytes") as over:
            await exchange(listener.url, "_t", [b"?"], tls=client_tls(), max_answers=1_500)
        assert over.value.name == "AQUEDUCT_CHANNEL.OVERFLOW"


@CARRIERS
def test_a_channel_over_a_line_of_its_own(carrier: str) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            listener = await net_.listen()
            reading = asyncio.create_task(taken(listener))  # type: ignore[arg-type]
            async with open_channel(listener.url, "_t", b"0", tls=client_tls()) as channel:
                for number in range(1, 100):
                    await channel.send(b"%d" % number)
            assert await reading == [*(b"%d" % number for number in range(100)), b""]
            if carrier == "telehash":
                await eventually(lambda: not listener.lines)

    run()


async def taken(listener: AsyncIterator[TelehashChannel]) -> list[bytes]:
    return await bodies(await anext(listener))


@CARRIERS
@rule("P-3", "T-2")
def test_either_side_opens_channels_of_its_own(carrier: str) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            listener = await net_.listen()
            line = await net_.connect(types=["_back"])
            first = line.open("_t", b"x")
            theirs = await accepted(listener)
            [other] = listener.lines
            back, unknown = other.open("_back", b"y"), other.open("_no", b"z")
            assert (first.number, back.number, unknown.number) == (1, 2, 4)
            here = await anext(line)
            assert (here.type, (await anext(here)).body) == ("_back", b"y")
            with pytest.raises(ChannelEnded, match="by an error: unknown type"):
                await unknown.delivered()
            assert (await anext(theirs)).body == b"x"
            await line.close()
            with pytest.raises(StopAsyncIteration):
                await anext(line)
            with pytest.raises(ChannelEnded, match="LOST"):
                line.open("_t")

    run()


@in_loop
@rule("P-3")
async def test_hashnames_say_who_is_odd_where_both_are_told() -> None:
    low, high = "00" * 32, "f0" * 32
    async with net() as net_:
        listener = await net_.listen(hashname=high, peer_hashname=low)
        line = await net_.connect(hashname=low, peer_hashname=high)
        ours = line.open("_t", b"x")
        theirs = await accepted(listener)
        assert (ours.number, theirs.number) == (2, 2)
        assert (await anext(theirs)).body == b"x"
    async with net() as net_:
        listener = await net_.listen(peer_hashname=low)  # its own is that of its certificate
        line = await net_.connect(hashname=low)
        ours = line.open("_t", b"x")
        assert ours.number == 2
        assert (await anext(await accepted(listener))).body == b"x"
    for wrong in ("f0", "x" * 64):
        with pytest.raises(InvalidOption, match="64 hexadecimal digits"):
            connect("telehash://127.0.0.1:1", hashname=wrong)


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        ("quicr://127.0.0.1:1", "none of our carriers"),
        ("telehash://127.0.0.1", "names no port"),
        ("udp://:7", "names no host"),
        ("127.0.0.1:7", "does not start with telehash://"),
    ],
)
def test_an_endpoint_that_cannot_be_dialled(endpoint: str, why: str) -> None:
    with pytest.raises(InvalidOption, match=why):
        connect(endpoint)


@in_loop
async def test_nobody_is_there() -> None:
    with pytest.raises(ConnectFailed, match="REFUSED"):
        await connect("telehash://127.0.0.1:9", tls=client_tls())
    async with connect("udp://127.0.0.1:9") as line:
        with pytest.raises(ChannelEnded, match=r"LOST.*unreachable"):
            await line.open("_t", b"anybody?").delivered()


@in_loop
async def test_plain_udp_stays_on_this_machine() -> None:
    with pytest.raises(InvalidOption, match=r"not a loopback address"):
        await connect("udp://192.0.2.1:7")
    async with connect("udp://192.0.2.1:7", udp=PlainSettings(trusted=True)) as line:
        assert "192.0.2.1:7" in repr(line)


@in_loop
async def test_bounds_reach_the_engine() -> None:
    async with net() as net_:
        listener = await net_.listen(config=TelehashConfig(max_channels=2))
        line = await net_.connect()
        channels = [line.open("_t", b"x") for _ in range(3)]
        with pytest.raises(ChannelEnded, match="by an error: full"):
            await channels[2].delivered()
        assert [line.channels for line in listener.lines] == [2]
