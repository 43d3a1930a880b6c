"""One message and what became of it, on local and networked channels and on those of a producer."""

from __future__ import annotations

import asyncio

import pytest

from aqueduct_core.aio.deliveries import DeliveryReport
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import ConnectionLost, Misuse
from aqueduct_core.aio.producer_channel import ProducerChannel
from aqueduct_core.errors import AqueductError
from tests.core.aio.scene import KINDS, pair, scene
from tests.core.aio.storing import producer, storing
from tests.support.event_loop import eventually, in_loop
from tests.support.virtual_loop import let_happen

kinds = pytest.mark.parametrize("kind", KINDS)
networked = pytest.mark.parametrize("kind", KINDS[1:])
modes = pytest.mark.parametrize("mode", ["ordered", "unordered", "unreliable"])


@kinds
@modes
@in_loop
async def test_each_has_its_own_number_and_ack(kind: str, mode: str) -> None:
    async with pair(kind, mode) as (sender, receiver):
        for number in range(5):
            delivery = await sender.send_and_wait(b"%d" % number)
            assert delivery.acked
            assert not delivery.reason
            assert delivery.number in (number, -1)  # -1: it waited, and had none yet
            message = await receiver.receive()
            assert (message.payload, message.number) == (b"%d" % number, number)


@kinds
@in_loop
async def test_many_wait_at_once(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        reading = asyncio.ensure_future(_numbers(receiver))
        deliveries = await asyncio.gather(*(sender.send_and_wait(bytes(100)) for _ in range(300)))
        assert deliveries == [DeliveryReport(number, True) for number in range(300)]
        await sender.finish()
        assert await reading == list(range(300))


async def _numbers(receiver: object) -> list[int]:
    return [message.number async for message in receiver]  # type: ignore[attr-defined]


@networked
@in_loop
async def test_a_receiver_that_closes_nacks_with_its_reason(kind: str) -> None:
    """What is too much for the queue is not acked before it is read."""
    async with pair(kind) as (sender, receiver):
        waiting = [asyncio.ensure_future(sender.send_and_wait(bytes(1 << 20))) for _ in range(8)]
        await let_happen()
        open_before = [task for task in waiting if not task.done()]
        assert open_before
        await receiver.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        nacked = [each for each in results if isinstance(each, DeliveryReport) and not each.acked]
        never_left = [each for each in results if isinstance(each, AqueductError)]
        assert len(nacked) + len(never_left) == len(open_before)
        assert all("closed it" in each.reason for each in nacked)
        assert all(each.subclass == "RECEIVER_CLOSED" for each in never_left)


@in_loop
async def test_what_is_lost_on_the_way_is_nacked() -> None:
    """The peer declares a hole of the datagram space as nacked."""
    async with scene() as set_up:
        sender, receiver = channel("unreliable")
        (far,) = await set_up.carry(receiver)
        link = set_up.client._driver.link
        assert (await sender.send_and_wait(b"arrives")).acked
        true_transmit = link.transmit
        link.transmit = lambda now: (true_transmit(now), [])[1]  # type: ignore[method-assign]
        waiting = asyncio.ensure_future(sender.send_and_wait(b"lost"))
        for _ in range(3):
            await asyncio.sleep(0)
        link.transmit = true_transmit  # type: ignore[method-assign]
        delivery = await waiting
        assert not delivery.acked
        assert delivery.number == 1
        assert "lost" in delivery.reason
        assert sender.statistics.nacked == 1
        del far


@in_loop
async def test_a_connection_that_ends_leaves_it_unknown() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        waiting = [asyncio.ensure_future(sender.send_and_wait(bytes(1 << 20))) for _ in range(8)]
        await let_happen()
        done = sum(task.done() for task in waiting)
        set_up.client.abort("a test")
        results = await asyncio.gather(*waiting, return_exceptions=True)
        lost = [each for each in results if isinstance(each, ConnectionLost)]
        assert len(lost) == len(waiting) - done > 0
        del far


@networked
@in_loop
async def test_one_that_is_cancelled_here_says_so(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        waiting = [asyncio.ensure_future(sender.send_and_wait(bytes(1 << 20))) for _ in range(8)]
        await let_happen()
        open_before = [task for task in waiting if not task.done()]
        await sender.cancel("the disk is full")
        results = await asyncio.gather(*waiting, return_exceptions=True)
        raised = [each for each in results if isinstance(each, Misuse)]
        assert len(raised) == len(open_before) > 0
        assert all("cancelled on this side (the disk is full)" in str(each) for each in raised)
        del receiver


@networked
@in_loop
async def test_a_wait_that_is_cancelled_says_what_was_sent(kind: str) -> None:
    async with pair(kind) as (sender, receiver):
        notes: list[str] = []

        async def send() -> None:
            try:
                await sender.send_and_wait(bytes(1 << 20))
            except asyncio.CancelledError as error:
                notes.extend(error.__notes__)
                raise

        waiting = [asyncio.ensure_future(send()) for _ in range(16)]
        await let_happen()
        cancelled = [task for task in waiting if not task.done()]
        for task in cancelled:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        not_sent = [note for note in notes if note.endswith("was not sent")]
        unknown = [note for note in notes if note.endswith("its outcome is not known")]
        assert len(not_sent) + len(unknown) == len(cancelled) > 0
        assert sender.statistics.sent == 16 - len(not_sent)
        got = await _read(sender, receiver)
        assert got == 16 - len(not_sent)


async def _read(sender: Sender, receiver: object) -> int:
    finishing = asyncio.ensure_future(sender.finish())
    got = len(await _numbers(receiver))
    await finishing
    return got


@in_loop
async def test_a_timeout_leaves_no_doubt_either() -> None:
    sender, receiver = channel()
    await sender.send(bytes(4 << 20))  # the queue is full
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(1):
            await sender.send_and_wait(b"never")
    cause = caught.value.__cause__
    assert cause is not None
    assert cause.__notes__ == ["the message for a local channel was not sent"]
    assert [message.payload for message in [await receiver.receive()]] == [bytes(4 << 20)]


@in_loop
async def test_of_a_producer_it_waits_across_reconnects() -> None:
    async with storing() as (server, store), producer(server.url) as sending:
        lines = sending.channel("lines")
        assert await lines.send_and_wait(b"a") == DeliveryReport(0, True)
        store.connections[-1].abort("a test")
        assert await lines.send_and_wait(b"b") == DeliveryReport(1, True)
        assert sending.statistics.reconnects == 1
        loose = sending.channel("loose", "unreliable")
        assert (await loose.send_and_wait(b"c")).acked
        async with lines:
            await lines.send(b"d")
        assert lines.finished
        assert store.payloads("lines") == [b"a", b"b", b"d"]


@in_loop
async def test_of_a_producer_that_has_no_connection_an_unreliable_one_is_nacked() -> None:
    async with storing() as (server, store):
        async with producer(server.url, give_up_after=None) as sending:
            loose = sending.channel("loose", "unreliable")
            assert (await loose.send_and_wait(b"a")).acked
            await server.close()
            await eventually(lambda: not sending.connected)
            delivery = await loose.send_and_wait(b"b")
            assert (delivery.acked, delivery.number) == (False, -1)
            assert delivery.reason == "there is no connection to send it on"
            await sending.cancel()
        assert store.unreliable == [b"a"]


@in_loop
async def test_a_channel_whose_block_raised_is_not_finished() -> None:
    async with storing() as (server, _), producer(server.url) as sending:
        lines = sending.channel("lines")
        with pytest.raises(ZeroDivisionError):
            await _break_off(lines)
        assert not lines.finished
        assert (await lines.send_and_wait(b"b")).acked


async def _break_off(channel: ProducerChannel) -> None:
    async with channel:
        await channel.send(b"a")
        raise ZeroDivisionError
