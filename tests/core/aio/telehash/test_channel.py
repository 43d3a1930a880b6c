"""A channel, from both sides: what is acknowledged and when, and all ways in which it ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

from aqueduct_core.aio.telehash.channel import (
    PACKET_BYTES,
    UNTAKEN,
    ReceivedPacket,
    TelehashChannel,
)
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.faults import PacketTooLarge
from tests.core.aio.telehash.scene import CARRIERS, Net, accepted, bodies, content, net
from tests.support.event_loop import eventually, in_loop
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen


async def pair(net_: Net, **options: object) -> tuple[TelehashChannel, TelehashChannel]:
    """Both ends of a channel; the first packet is on its way."""
    listener = await net_.listen()
    line = await net_.connect()
    ours = line.open("_t", b"first", **options)  # type: ignore[arg-type]
    return ours, await accepted(listener)


@CARRIERS
@rule("P-1", "P-4", "P-5", "T-1", "T-3")
def test_packets_go_both_ways_to_the_end(carrier: str) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            listener = await net_.listen()
            line = await net_.connect()
            async with line.open("_hello", b"hi", js={"custom": "values"}) as ours:
                theirs = await accepted(listener)
                assert (theirs.type, theirs.reliable, theirs.number) == ("_hello", True, 1)
                assert content(await anext(theirs)) == (b"hi", {"custom": "values"})
                assert await theirs.send(b"\xff", js={"n": 1}) == 0
                assert await anext(ours) == ReceivedPacket(0, b"\xff", b'{"n":1}')
                ours.acknowledge()
                assert await ours.send(b"last", end=True) == 1
                assert await bodies(theirs) == [b"last"]
                await ours.delivered()
            await eventually(lambda: not line.channels)
            assert (ours.unacked, ours.closed) == (0, True)
            assert [line.channels for line in listener.lines] == [0]

    run()


@in_loop
@rule("T-6", "T-7", "T-9")
async def test_a_packet_is_acked_by_the_next_step() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_)
        await ours.send(b"second")
        assert (await anext(theirs)).body == b"first"
        await let_happen(3)
        assert ours.unacked == 2  # it was given, and that is all
        assert (await anext(theirs)).body == b"second"
        await eventually(lambda: ours.unacked == 1)
        theirs.acknowledge()
        await asyncio.wait_for(ours.delivered(), 5)
        assert ours.unacked == 0


@in_loop
@rule("P-6", "T-7", "T-19")
async def test_who_leaves_by_an_error_has_not_acknowledged() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_)

        async def process() -> None:
            async with theirs:
                async for packet in theirs:
                    raise RuntimeError(f"cannot process {packet.body!r}")

        with pytest.raises(RuntimeError, match="cannot"):
            await process()
        with pytest.raises(ChannelEnded, match="by an error: failed") as failed:
            await ours.delivered()
        assert failed.value.name == "AQUEDUCT_CHANNEL.FAILED"
        assert ours.unacked == 1
        with pytest.raises(ChannelEnded, match="FAILED"):
            await ours.send(b"more")
        with pytest.raises(ChannelEnded, match="FAILED"):
            await anext(ours)


@in_loop
async def test_who_is_cancelled_has_not_acknowledged_either() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_)

        async def process() -> None:
            async with theirs:
                async for _ in theirs:
                    await asyncio.Event().wait()

        task = asyncio.create_task(process())
        await let_happen(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ChannelEnded, match="by an error: cancelled"):
            await ours.delivered()


@in_loop
@rule("T-4")
async def test_sending_waits_at_the_window_and_a_cancelled_wait_has_sent_nothing() -> None:
    async with net() as net_:
        listener = await net_.listen()
        line = await net_.connect(config=TelehashConfig(window=4))
        ours = line.open("_t", b"0")
        for number in range(1, 4):
            await ours.send(b"%d" % number)
        waiting = asyncio.create_task(ours.send(b"never"))
        await let_happen(1)
        assert not waiting.done()
        waiting.cancel()
        behind = [asyncio.create_task(ours.send(b"%d" % number)) for number in range(4, 9)]
        theirs = await accepted(listener)
        got = [(await anext(theirs)).body for _ in range(9)]
        assert got == [b"%d" % number for number in range(9)]
        assert [await task for task in behind] == [*range(4, 9)]
        assert waiting.cancelled()


@in_loop
@rule("P-5", "T-17", "T-18")
async def test_one_end_is_enough() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_)
        await anext(theirs)
        answer = asyncio.create_task(theirs.end(b"that is all", js={"ok": True}))
        last = await anext(ours)
        assert (last.body, last.js, last.end) == (b"that is all", {"ok": True}, True)
        assert not answer.done()  # it was given, and not processed yet
        with pytest.raises(StopAsyncIteration):
            await anext(ours)
        await answer
        with pytest.raises(ChannelEnded, match="Nothing more goes"):
            await ours.send(b"too late")
        await ours.end()  # there is nothing to do
        await theirs.end()
        assert (ours.closed, theirs.closed) == (True, True)
        with pytest.raises(StopAsyncIteration):
            await anext(theirs)


@in_loop
@rule("P-6", "T-2")
async def test_a_text_says_why_it_failed() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_)
        theirs.fail("because \u2028 of\nthat")
        theirs.fail("only the first one counts")
        with pytest.raises(ChannelEnded, match=r"because \\u2028 of\\nthat") as failed:
            await anext(ours)
        assert "\n" not in str(failed.value)
        with pytest.raises(ChannelEnded, match="this side has ended it"):
            await theirs.send(b"more")


@in_loop
@rule("P-7", "T-16")
async def test_a_peer_that_acks_nothing_for_too_long() -> None:
    async with net() as net_:
        listener = await net_.listen()
        line = await net_.connect(config=TelehashConfig(channel_timeout=3))
        ours = line.open("_t", b"1")
        theirs = await accepted(listener)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(ChannelEnded, match="nothing was acked for 3 s: 1 packets") as failed:
            await ours.delivered()
        assert failed.value.name == "AQUEDUCT_CHANNEL.TIMEOUT"
        assert 2.9 < loop.time() - begun < 4
        await eventually(lambda: theirs.closed)
        with pytest.raises(ChannelEnded, match="by an error: timeout"):
            await anext(theirs)


@in_loop
async def test_a_line_that_is_lost_ends_its_channels() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_)
        sending = asyncio.create_task(ours.delivered())
        reading = asyncio.create_task(anext(ours))
        await let_happen(0.1)
        await net_.listener.close("maintenance")
        for task in (sending, reading):
            with pytest.raises(ChannelEnded, match="closed by peer, code 0: maintenance") as lost:
                await task
            assert lost.value.name == "AQUEDUCT_CHANNEL.LOST"
        with pytest.raises(ChannelEnded, match="LOST"):
            await anext(theirs)


@in_loop
async def test_the_end_of_a_block_tells_what_nobody_was_told() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_)

        async def unaware() -> None:
            async with ours:
                theirs.fail("no")
                await eventually(lambda: ours.closed)

        with pytest.raises(ChannelEnded, match="FAILED"):
            await unaware()
        line = await net_.connect()
        async with line.open("_t", b"x") as known:
            (await accepted(net_.listener)).fail("no")
            with pytest.raises(ChannelEnded, match="FAILED"):
                await known.delivered()


@in_loop
async def test_reading_gives_up_after_silence() -> None:
    async with net() as net_:
        ours, theirs = await pair(net_, timeout=2.0)
        await anext(theirs)
        await theirs.send(b"one")
        await anext(ours)
        with pytest.raises(ChannelEnded, match="Nothing came on channel 1 '_t'") as silent:
            await anext(ours)
        assert silent.value.name == "AQUEDUCT_CHANNEL.NO_REPLY"
        assert not ours.closed


@CARRIERS
@rule("P-1")
def test_what_does_not_fit_has_no_number(carrier: str) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            ours, theirs = await pair(net_)
            line = ours._line
            assert line.limit == {"telehash": 1_156, "udp": 1_472}[carrier]  # type: ignore[attr-defined]
            with pytest.raises(PacketTooLarge) as refused:
                await ours.send(bytes(1_472))
            assert refused.value.limit == line.limit  # type: ignore[attr-defined]
            with pytest.raises(PacketTooLarge):
                line.open("_t", bytes(1_472))  # type: ignore[attr-defined]
            largest = refused.value.limit - (refused.value.size - 1_472)
            assert await ours.send(bytes(largest)) == 1
            assert [len((await anext(theirs)).body) for _ in range(2)] == [5, largest]

    run()


@CARRIERS
@rule("T-1")
def test_unreliable_channels_are_datagrams(carrier: str) -> None:
    @in_loop
    async def run() -> None:
        async with net(carrier) as net_:
            ours, theirs = await pair(net_, reliable=False)
            assert not theirs.reliable
            assert await ours.send(b"second", js={"n": 2}) is None
            await ours.end(b"third")
            got = [packet async for packet in theirs]
            assert [(each.seq, each.body, each.end) for each in got] == [
                (None, b"first", False),
                (None, b"second", False),
                (None, b"third", True),
            ]
            assert got[1].js == {"n": 2}
            await ours.delivered()
            assert (ours.closed, theirs.closed, theirs.dropped) == (True, True, 0)

    run()


@in_loop
async def test_a_slow_program_loses_unreliable_packets_and_is_told() -> None:
    async with net("udp") as net_:
        ours, theirs = await pair(net_, reliable=False)
        for _ in range(1_000):
            await ours.send(bytes(1_400))
            await let_happen(0.001)
        await eventually(lambda: theirs.dropped > 0)
        line = theirs._line
        size = PACKET_BYTES + 1_400
        assert UNTAKEN < line.held <= UNTAKEN + size
        taken = 0
        while line.held:
            await anext(theirs)
            taken += 1
        assert UNTAKEN // size <= taken < 1_000


@in_loop
async def test_unreliable_packets_without_a_body_are_bounded_too() -> None:
    async with net("udp") as net_:
        ours, theirs = await pair(net_, reliable=False)
        for number in range(UNTAKEN // PACKET_BYTES + 100):
            await ours.send(js={"text": "x" * 1_000} if number % 2 else {})
            await let_happen(0.0001)
        await eventually(lambda: theirs.dropped > 0)
        assert theirs._line.held <= UNTAKEN + PACKET_BYTES + 1_100


@in_loop
@rule("T-5")
async def test_what_a_program_has_not_read_is_memory_of_its_line() -> None:
    async with net("udp") as net_:
        ours, theirs = await pair(net_)
        line = net_.listener.lines.copy().pop()
        for _ in range(20):
            await ours.send(bytes(1_000), js={"text": "x" * 100})
        await eventually(lambda: line.held > 20 * 1_100)
        before = line.driver.footprint.size
        for _ in range(20):
            await anext(theirs)
        assert before - line.driver.footprint.size > 19 * 1_100
        ours.fail()
        await eventually(lambda: theirs.closed)
        assert line.held == 0


@in_loop
async def test_what_a_program_has_left_unread_is_not_held_for_ever() -> None:
    async with net("udp") as net_:
        ours, *theirs = await pair(net_, reliable=False)
        line = net_.listener.lines.copy().pop()
        await ours.send(bytes(1_000), end=True)
        await eventually(lambda: theirs[0].closed)
        assert line.held > 1_000
        theirs.clear()
        gc.collect()
        assert line.held == 0


@in_loop
@rule("T-5")
async def test_a_slow_program_holds_the_sender_back() -> None:
    async with net() as net_:
        listener = await net_.listen()
        line = await net_.connect(config=TelehashConfig(window=100))
        ours = line.open("_t", b"0")

        async def send() -> None:
            for number in range(1, 300):
                await ours.send(b"%d" % number)
            await ours.end()

        sending = asyncio.create_task(send())
        theirs = await accepted(listener)
        got = []
        async for packet in theirs:
            got.append(packet.body)
            assert ours._sent <= len(got) + 100
            await let_happen(0.5)
        await sending
        assert got == [b"%d" % number for number in range(300)] + [b""]


@in_loop
async def test_a_line_that_closes_takes_nothing_more() -> None:
    async with net() as net_:
        ours, _ = await pair(net_)
        closing = asyncio.create_task(ours._line.close())  # type: ignore[attr-defined]
        await asyncio.sleep(0)
        with pytest.raises(ChannelEnded, match=r"LOST.*closed by this side"):
            await ours.send(b"too late")
        await closing


@in_loop
@rule("P-5")
async def test_who_waits_to_send_learns_that_the_peer_has_ended_it() -> None:
    async with net() as net_:
        listener = await net_.listen()
        line = await net_.connect(config=TelehashConfig(window=1))
        ours = line.open("_t", b"1")
        theirs = await accepted(listener)
        waiting = asyncio.create_task(ours.send(b"2"))
        answer = asyncio.create_task(theirs.send(b"enough", end=True))
        assert (await anext(ours)).body == b"enough"
        assert not waiting.done()
        ours.acknowledge()
        with pytest.raises(ChannelEnded, match="Nothing more goes") as ended:
            await asyncio.wait_for(waiting, 1)
        assert ended.value.name == "AQUEDUCT_CHANNEL.CANCELLED"
        await answer
        theirs.fail("over")
