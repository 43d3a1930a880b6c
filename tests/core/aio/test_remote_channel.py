"""Flow control as an application meets it: senders wait, nothing is lost, memory is bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.network import TURN_MESSAGES
from aqueduct_core.aio.outcomes import Cancelled, Finished, LostInTransit
from aqueduct_core.aio.serve import serve
from aqueduct_core.aqueduct.config import Config
from aqueduct_core.transport.settings import LinkSettings
from tests.core.aio.scene import Scene
from tests.support.event_loop import client_tls, eventually, in_loop, server_tls
from tests.support.rules import rule
from tests.support.virtual_loop import let_happen

BUFFER = 20_000


@asynccontextmanager
async def scene(
    server: Config | None = None,
    client: Config | None = None,
    settings: LinkSettings | None = None,
) -> AsyncIterator[Scene]:
    """A server that buffers ``BUFFER`` bytes a channel, and a client that knows flow control."""
    server = server or Config(flow_per_channel=BUFFER)
    async with (
        serve("127.0.0.1", 0, tls=server_tls(), config=server, settings=settings) as listening,
        connect(listening.url, tls=client_tls(), config=client) as dialled,
    ):
        yield Scene(listening, dialled, await listening.accept())


async def pair(set_up: Scene, mode: str = "ordered") -> tuple[Sender, Receiver]:
    sender, receiver = channel(mode)
    (far,) = await set_up.carry(receiver)
    assert isinstance(far, Receiver)
    return sender, far


@rule("AQ-FLOW-4", "AQ-FLOW-5", "AQ-FLOW-6")
@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_a_sender_waits_for_a_reader_that_is_slow(mode: str) -> None:
    queue = Config(flow_per_channel=0, send_queue_bytes=10_000)
    async with scene(client=queue) as set_up:
        sender, far = await pair(set_up, mode)
        numbers: list[int] = []

        async def fill() -> None:
            for i in range(200):
                numbers.append(await sender.send(b"%06d" % i + bytes(994)))
            await sender.finish()

        task = asyncio.ensure_future(fill())
        await let_happen()
        assert not task.done()
        # the far queue is full, and what waits here is bounded
        assert 15 <= far.statistics.received <= 20
        assert len(numbers) <= 20 + 10 + 1
        got = [int(message.payload[:6]) async for message in far]
        assert sorted(got) == list(range(200))
        assert mode == "unordered" or got == sorted(got)
        await task
        assert numbers == list(range(200))
        assert isinstance(far.outcome, Finished)


@rule("AQ-FLOW-4")
@in_loop
async def test_bulk_sends_wait_too_and_large_messages_go_alone() -> None:
    async with scene() as set_up:
        sender, far = await pair(set_up)
        payloads = [bytes([i % 256]) * (1 + i * 997 % 30_000) for i in range(60)]
        task = asyncio.ensure_future(sender.send_many(payloads))
        await let_happen()
        assert not task.done()
        assert far.statistics.queued_bytes <= BUFFER + 30_010
        got: list[bytes] = []
        while len(got) < len(payloads):
            got.append((await far.receive()).payload)
            assert far.statistics.queued_bytes <= BUFFER + 30_010
        assert got == payloads
        assert await task == 60
        await sender.flush()


@rule("AQ-FLOW-5")
@pytest.mark.parametrize("how", ["send", "send_many", "with headers"])
@in_loop
async def test_an_unreliable_sender_waits_for_its_reader_and_drops_nothing(how: str) -> None:
    queue = Config(flow_per_channel=0, send_queue_messages=3)
    async with scene(server=Config(flow_per_channel=2_000), client=queue) as set_up:
        sender, far = await pair(set_up, "unreliable")
        payloads = [b"%03d" % i + bytes(900) for i in range(40)]

        async def offer() -> None:
            if how == "send_many":
                await sender.send_many(payloads)
            else:
                for payload in payloads:
                    await sender.send(payload, headers={"k": "v"} if how == "with headers" else {})
            await sender.finish()

        task = asyncio.ensure_future(offer())
        await let_happen()
        assert not task.done()
        assert far.statistics.received == 2
        assert sender.statistics.sent <= 2 + 3
        got = [int(message.payload[:3]) async for message in far]
        assert got == list(range(40))
        await task
        counts = sender.statistics
        assert (counts.sent, counts.acked, counts.nacked, counts.pending) == (40, 40, 0, 0)


@rule("AQ-FLOW-5")
@in_loop
async def test_who_would_rather_lose_than_wait_gives_an_unreliable_message_a_time() -> None:
    queue = Config(flow_per_channel=0, send_queue_messages=3)
    async with scene(server=Config(flow_per_channel=2_000), client=queue) as set_up:
        sender, far = await pair(set_up, "unreliable")
        late = 0
        for i in range(10):
            try:
                async with asyncio.timeout(0.1):
                    await sender.send(b"%03d" % i + bytes(900))
            except TimeoutError:
                late += 1
        assert late == 10 - 2 - 3
        finish = asyncio.ensure_future(sender.finish())
        assert [int(message.payload[:3]) async for message in far] == [0, 1, 2, 3, 4]
        await finish
        counts = sender.statistics
        assert (counts.sent, counts.acked, counts.nacked) == (5, 5, 0)


@rule("AQ-SEND-12")
@in_loop
async def test_what_a_message_was_to_carry_is_lost_when_it_never_leaves() -> None:
    queue = Config(flow_per_channel=0, send_queue_messages=3)
    async with scene(server=Config(flow_per_channel=2_000), client=queue) as set_up:
        sender, _ = await pair(set_up, "unreliable")
        for i in range(2):
            assert await sender.send(b"%03d" % i + bytes(900)) == i
        lost_sender, travels = channel()
        stays, travelling_sender = (half for half in reversed(channel()))
        assert isinstance(stays, Receiver)
        assert isinstance(travelling_sender, Sender)
        await lost_sender.send(b"never arrives")
        assert await sender.send(bytes(900), attach=[travels, travelling_sender]) == -1
        await sender.cancel()
        await eventually(lambda: lost_sender.outcome is not None)
        with pytest.raises(LostInTransit):
            await lost_sender.finish()
        with pytest.raises(LostInTransit):
            await stays.receive()


@rule("AQ-FLOW-5", "AQ-SEND-11")
@in_loop
async def test_a_local_queue_that_is_larger_than_the_buffer_arrives_in_parts() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        for i in range(100):
            await sender.send(b"%03d" % i + bytes(997), headers={"i": str(i)} if i % 7 == 0 else ())
        inner, inner_receiver = channel()
        await sender.send(b"100", attach=inner_receiver)
        await inner.send(b"inside")
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        late = asyncio.ensure_future(sender.send(b"101"))
        finish = asyncio.ensure_future(inner.finish())
        for i in range(100):
            message = await far.receive()
            assert int(message.payload[:3]) == i
            assert message.header("i") == (b"%d" % i if i % 7 == 0 else None)
        (far_inner,) = (await far.receive()).attachments
        assert isinstance(far_inner, Receiver)
        assert [message.payload async for message in far_inner] == [b"inside"]
        await finish
        assert await late == 101
        assert (await far.receive()).payload == b"101"
        await sender.finish()
        assert sender.statistics.acked == 102


@rule("AQ-FLOW-11")
@in_loop
async def test_a_finish_goes_behind_what_waits_and_a_cancel_drops_it() -> None:
    async with scene() as set_up:
        sender, far = await pair(set_up)
        for i in range(30):
            await sender.send(b"%03d" % i + bytes(997))
        finish = asyncio.ensure_future(sender.finish())
        await let_happen()
        assert not finish.done()
        assert [int(m.payload[:3]) async for m in far] == list(range(30))
        await finish
        sender, far = await pair(set_up)
        inner, inner_receiver = channel()
        for _ in range(30):
            await sender.send(bytes(1000))
        await sender.send(b"", attach=inner_receiver)
        await sender.cancel()
        await eventually(lambda: inner.outcome is not None)
        with pytest.raises(LostInTransit):
            await inner.send(b"too late")
        await eventually(lambda: far.outcome is not None)
        assert isinstance(far.outcome, Cancelled)


@in_loop
async def test_the_last_streams_are_for_control() -> None:
    """More messages than the peer allows streams, each on its own, and acks, replies and ends
    in between (H12)."""
    settings = LinkSettings(max_streams_uni=24)
    async with scene(settings=settings, client=Config(flow_per_channel=0)) as set_up:
        sender, far = await pair(set_up, "unordered")

        async def read() -> list[int]:
            got = []
            async for message in far:
                got.append(int(message.payload))
                for half in message.attachments:
                    assert isinstance(half, Sender)
                    await half.send(b"reply to " + message.payload)
            return got

        reading = asyncio.ensure_future(read())
        replies = []
        for i in range(300):
            attach = []
            if i % 10 == 0:
                reply, answer = channel(oneshot=True)
                attach = [reply]
                replies.append(answer)
            await sender.send(b"%d" % i, attach=attach)
        await sender.finish()
        assert sorted(await reading) == list(range(300))
        for i, answer in enumerate(replies):
            assert (await answer.receive()).payload == b"reply to %d" % (10 * i)


@pytest.mark.parametrize("streams", [2, 3, 4, 8])
@in_loop
async def test_a_server_that_allows_few_streams(
    streams: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The entrypoint and an ordered channel hold one each: with two an unordered channel waits for
    the end of that, which a warning says, and else it goes on beside it (H12)."""
    settings = LinkSettings(max_streams_uni=streams)
    async with scene(settings=settings) as set_up:
        ordered, far = await pair(set_up, "ordered")
        await ordered.send(b"first")
        assert (await far.receive()).payload == b"first"
        loose, far_loose = await pair(set_up, "unordered")
        for number in range(50):
            await loose.send(b"%d" % number)
        finishing = asyncio.ensure_future(loose.finish())
        if streams == 2:
            await eventually(lambda: "channels hold all of them" in caplog.text)
            assert "2 streams" in caplog.text
            assert not finishing.done()
            finishing_ordered = asyncio.ensure_future(ordered.finish())
            with pytest.raises(Finished):
                await far.receive()
            await finishing_ordered
        assert sorted([int(message.payload) async for message in far_loose]) == list(range(50))
        await finishing
        assert (streams == 2) is ("channels hold all of them" in caplog.text)


@rule("AQ-FLOW-2")
@pytest.mark.parametrize("silent", ["client", "server"])
@in_loop
async def test_a_peer_that_knows_only_the_specification(silent: str) -> None:
    plain, tight = Config(), Config(flow_per_channel=1)
    server, client = (tight, plain) if silent == "client" else (plain, tight)
    async with scene(server=server, client=client) as set_up:
        sender, far = await pair(set_up)
        await sender.send_many([bytes(1000)] * 200)
        await sender.flush()
        assert far.statistics.received == 200


@pytest.mark.parametrize("how", ["many", "one by one"])
@pytest.mark.parametrize("mode", ["ordered", "unordered"])
@in_loop
async def test_small_messages_leave_the_loop_to_others_in_between(mode: str, how: str) -> None:
    """Else nothing is read and no ping is sent for so long that the peer takes us for dead."""
    count = 5 * TURN_MESSAGES // 2
    async with scene(server=Config()) as set_up:
        sender, far = await pair(set_up, mode)

        async def fill() -> None:
            if how == "many":
                await sender.send_many([b""] * count)
            else:
                for _ in range(count):
                    await sender.send(b"", headers=((b"k", b"v"),))
            await sender.finish()

        task = asyncio.ensure_future(fill())
        reading = asyncio.ensure_future(_count(far))
        turns = [0]
        while not task.done():
            await asyncio.sleep(0)
            turns.append(sender.statistics.sent)
        await task
        assert await reading == count
        assert max(after - before for before, after in pairwise(turns)) < 2 * TURN_MESSAGES


async def _count(receiver: Receiver) -> int:
    return sum([1 async for _ in receiver])
