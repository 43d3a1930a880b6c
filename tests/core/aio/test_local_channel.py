"""Attaching halves: what is refused, and channels that become networked with a queue."""

from __future__ import annotations

import asyncio
import threading

import pytest

from aqueduct_core.aio.halves import Receiver, Sender, channel, oneshot
from aqueduct_core.aio.outcomes import Cancelled, Misuse, ReceiverClosed
from tests.core.aio.scene import KINDS, pair, scene
from tests.support.event_loop import eventually, in_loop

kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
@in_loop
async def test_a_half_travels_once(kind: str) -> None:
    async with pair(kind) as (carrier, _):
        sender, receiver = channel()
        await carrier.send(b"", attach=receiver)
        with pytest.raises(Misuse, match="no longer here"):
            await carrier.send(b"", attach=receiver)
        with pytest.raises(Misuse, match="no longer here"):
            await receiver.receive()
        with pytest.raises(Misuse):  # its other half is under way, or networked by now
            await carrier.send(b"", attach=sender)
        assert carrier.statistics.sent == 1


@kinds
@in_loop
async def test_what_cannot_be_attached_changes_nothing(kind: str) -> None:
    async with pair(kind) as (carrier, receiver):
        whole = channel()
        with pytest.raises(Misuse, match="only one half"):
            await carrier.send(b"", attach=whole)
        finished, _kept = channel()
        await finished.finish()
        with pytest.raises(Misuse, match="finished"):
            await carrier.send(b"", attach=[whole[0], finished])
        closed = channel()[1]
        await closed.close()
        with pytest.raises(Misuse, match="closed"):
            await carrier.send(b"", attach=[closed])
        with pytest.raises(TypeError, match="only senders and receivers"):
            await carrier.send(b"", attach=[b"half"])  # type: ignore[list-item]
        with pytest.raises(Misuse):
            await carrier.send(b"", attach=receiver)
        assert carrier.statistics.sent == 0
        await carrier.send(b"", attach=whole[1])
        await whole[0].send(b"still good")
        (arrived,) = (await receiver.receive()).attachments
        assert isinstance(arrived, Receiver)
        assert (await arrived.receive()).payload == b"still good"


@in_loop
async def test_a_networked_half_is_refused() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        (far,) = await set_up.carry(receiver)
        other, _kept = channel()
        with pytest.raises(Misuse, match="networked"):
            await other.send(b"", attach=far)
        with pytest.raises(Misuse, match="networked"):
            await set_up.client.entrypoint.send(b"", attach=sender)


@in_loop
async def test_a_half_of_another_loop_is_refused() -> None:
    made: list[tuple[Sender, Receiver]] = []

    async def make() -> None:
        made.append(channel())

    thread = threading.Thread(target=lambda: asyncio.run(make()))
    thread.start()
    await asyncio.to_thread(thread.join)
    carrier, _kept = channel()
    with pytest.raises(Misuse, match="another event loop"):
        await carrier.send(b"", attach=made[0][1])


@in_loop
async def test_messages_queued_before_the_receiver_left_go_out_first() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        for i in range(4):
            await sender.send(b"%d" % i, headers={"h": str(i)} if i == 2 else ())
        assert (await receiver.receive()).payload == b"0"
        assert sender.statistics.acked == 4
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        assert await sender.send(b"4") == 4
        await sender.send_many([b"5", b"6"])
        await sender.finish()
        assert sender.statistics.acked == sender.statistics.sent == 7
        got = [m async for m in far]
        assert [m.payload for m in got] == [b"%d" % i for i in range(1, 7)]
        assert got[1].header("h") == b"2"


@in_loop
async def test_a_channel_that_finished_before_it_left_arrives_whole() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        await sender.send_many([b"x"] * 50)
        await sender.finish()
        reply, reply_receiver = oneshot()
        await reply.send(b"once")
        far, far_reply = await set_up.carry(receiver, reply_receiver)
        assert isinstance(far, Receiver)
        assert isinstance(far_reply, Receiver)
        assert len([m async for m in far]) == 50
        assert [m.payload async for m in far_reply] == [b"once"]


@in_loop
async def test_messages_that_came_before_the_sender_left_stay_readable() -> None:
    async with scene() as set_up:
        sender, receiver = channel()
        await sender.send(b"local")
        (far,) = await set_up.carry(sender)
        assert isinstance(far, Sender)
        await far.send(b"networked")
        await far.finish()
        assert [(m.number, m.payload) async for m in receiver] == [(0, b"local"), (1, b"networked")]


@in_loop
async def test_halves_queued_in_a_local_channel_become_networked_with_it() -> None:
    async with scene() as set_up:
        outer, outer_receiver = channel()
        inner, inner_receiver = channel()
        answer, answer_receiver = channel()
        await inner.send(b"deep")
        await outer.send(b"", attach=[inner_receiver, answer])
        (far,) = await set_up.carry(outer_receiver)
        assert isinstance(far, Receiver)
        far_inner, far_answer = (await far.receive()).attachments
        assert isinstance(far_inner, Receiver)
        assert isinstance(far_answer, Sender)
        assert (await far_inner.receive()).payload == b"deep"
        await far_answer.send(b"up")
        assert (await answer_receiver.receive()).payload == b"up"


@in_loop
async def test_ends_from_before_the_journey_are_told_at_the_far_side() -> None:
    async with scene() as set_up:
        cancelled, cancelled_receiver = channel()
        await cancelled.cancel()
        unwanted, closed = channel()
        await closed.close()
        far_receiver, far_sender = await set_up.carry(cancelled_receiver, unwanted)
        assert isinstance(far_receiver, Receiver)
        assert isinstance(far_sender, Sender)
        with pytest.raises(Cancelled):
            await far_receiver.receive()
        await eventually(lambda: far_sender.outcome is not None)
        assert isinstance(far_sender.outcome, ReceiverClosed)


@in_loop
async def test_a_send_that_waits_goes_on_over_the_network() -> None:
    """The queue is full, the sender waits; then the receiver leaves, and nothing is lost."""
    async with scene() as set_up:
        sender, receiver = channel()
        large = bytes(1024 * 1024)

        async def fill() -> None:
            for i in range(12):
                await sender.send(large + b"%d" % i)
            await sender.finish()

        filling = asyncio.ensure_future(fill())
        await eventually(lambda: sender.statistics.sent >= 4)
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        tails = [m.payload[len(large) :] async for m in far]
        await filling
        assert tails == [b"%d" % i for i in range(12)]


@in_loop
async def test_reprs_say_what_a_half_is() -> None:
    sender, receiver = channel("unordered", name="cpu")
    assert repr(sender) == "<Sender of a local channel 'cpu', unordered, 0 sent, 0 acked, 0 nacked>"
    assert repr(receiver) == "<Receiver of a local channel 'cpu', 0 received, 0 taken>"
    carrier, other = channel()
    await carrier.send(b"", attach=receiver)
    assert repr(receiver) == "<Receiver, sent away>"
    assert repr(await other.receive()) == "<Message 0 reliable, 0 bytes>"


@in_loop
async def test_a_mode_or_name_that_is_none_is_told() -> None:
    with pytest.raises(ValueError, match="ordered, unordered or unreliable, and not 'fast'"):
        channel("fast")
    with pytest.raises(TypeError, match="name is text, not int"):
        channel(name=3)  # type: ignore[arg-type]
