"""What each way to end a channel or a connection does to messages, and to the other side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import (
    Cancelled,
    ConnectionLost,
    Finished,
    Misuse,
    Outcome,
    ReceiverClosed,
)
from aqueduct_core.aqueduct.conventions.headers import CODE_ABORTED, OWN_CODES
from tests.core.aio.scene import Scene, pair, scene
from tests.support.event_loop import in_loop
from tests.support.virtual_loop import let_happen

READ, ARRIVED, UNDER_WAY = b"read", b"arrived", b"under way"


class Ends(NamedTuple):
    """Of the message that was under way, whether it is acked, nacked or neither; how the sender's
    channel ended; what the receiver can still read, and how its channel ended."""

    under_way: str
    sender: type[Outcome] | None
    readable: list[bytes]
    receiver: type[Outcome] | None


HALVES: dict[str, tuple[Callable[[Sender, Receiver], Awaitable[None]], Ends]] = {
    "sender.finish": (
        lambda sender, _: sender.finish(),
        Ends("acked", None, [ARRIVED, UNDER_WAY], Finished),
    ),
    "sender.close": (
        lambda sender, _: sender.close(),
        Ends("acked", None, [ARRIVED, UNDER_WAY], Finished),
    ),
    "sender.cancel": (
        lambda sender, _: sender.cancel(),
        Ends("nacked", None, [], Cancelled),
    ),
    "receiver.close": (
        lambda _, receiver: receiver.close(),
        Ends("nacked", ReceiverClosed, [], None),
    ),
    "receiver.cancel": (
        lambda _, receiver: receiver.cancel(),
        Ends("nacked", ReceiverClosed, [], None),
    ),
}
CONNECTIONS: dict[str, tuple[Callable[[Scene], Awaitable[None]], Ends]] = {
    "close by the sender's side": (
        lambda at: at.client.close(),
        Ends("acked", ConnectionLost, [ARRIVED, UNDER_WAY], ConnectionLost),
    ),
    "close by the receiver's side": (
        lambda at: at.served.close(),
        Ends("nacked", ReceiverClosed, [], ConnectionLost),
    ),
    "cancel by the sender's side": (
        lambda at: at.client.cancel(),
        Ends("unknown", ConnectionLost, [ARRIVED], ConnectionLost),
    ),
    "cancel by the receiver's side": (
        lambda at: at.served.cancel(),
        Ends("unknown", ConnectionLost, [ARRIVED], ConnectionLost),
    ),
}


async def _begin(sender: Sender, receiver: Receiver) -> None:
    """One message was read, one has arrived, and one leaves only now."""
    await sender.send(READ)
    assert (await receiver.receive()).payload == READ
    await sender.send_and_wait(ARRIVED)
    await sender.send(UNDER_WAY)


async def _seen(sender: Sender, receiver: Receiver) -> Ends:
    await let_happen()
    counts = sender.statistics
    fate = {(3, 0): "acked", (2, 1): "nacked", (2, 0): "unknown"}[counts.acked, counts.nacked]
    readable = []
    try:
        while True:
            readable.append((await receiver.receive()).payload)
    except (Outcome, Misuse):
        pass
    outcomes = [half.outcome for half in (sender, receiver)]
    ended = [None if outcome is None else type(outcome) for outcome in outcomes]
    return Ends(fate, ended[0], readable, ended[1])


@pytest.mark.parametrize("verb", HALVES)
@in_loop
async def test_of_a_networked_channel(verb: str) -> None:
    end, expected = HALVES[verb]
    async with pair("receiver leaves") as (sender, receiver):
        await _begin(sender, receiver)
        await end(sender, receiver)
        seen = await _seen(sender, receiver)
        assert seen == expected
        await end(sender, receiver)
        assert await _seen(sender, receiver) == seen._replace(readable=[])


@pytest.mark.parametrize("verb", HALVES)
@in_loop
async def test_of_a_local_channel(verb: str) -> None:
    """There is no way between the halves, so nothing is under way: what was sent is acked."""
    end, expected = HALVES[verb]
    async with pair("local") as (sender, receiver):
        await _begin(sender, receiver)
        await end(sender, receiver)
        seen = await _seen(sender, receiver)
        assert seen == expected._replace(under_way="acked")
        await end(sender, receiver)
        assert await _seen(sender, receiver) == seen._replace(readable=[])


@pytest.mark.parametrize("verb", CONNECTIONS)
@in_loop
async def test_of_a_connection(verb: str) -> None:
    end, expected = CONNECTIONS[verb]
    async with scene() as set_up:
        sender, local = channel()
        (receiver,) = await set_up.carry(local)
        assert isinstance(receiver, Receiver)
        await _begin(sender, receiver)
        await end(set_up)
        assert await _seen(sender, receiver) == expected
        await end(set_up)
        for connection in (set_up.client, set_up.served):
            await connection.cancel()
            await connection.close()


@in_loop
async def test_the_peer_learns_code_and_reason() -> None:
    for verb in ("close", "cancel"):
        async with scene() as set_up:
            await getattr(set_up.client, verb)(OWN_CODES + 7, "the lights\ngo out")
            await set_up.served.wait_closed()
            closed = set_up.served.closed
            assert closed is not None
            assert (closed.code, closed.reason) == (OWN_CODES + 7, "the lights\ngo out")
            assert closed.by_peer
            end = Finished if verb == "close" else ConnectionLost
            with pytest.raises(end) as caught:
                await set_up.served.entrypoint.receive()
            if end is ConnectionLost:
                assert r"code 4103 (the lights\ngo out)" in str(caught.value)


@in_loop
async def test_a_connection_that_is_cancelled_says_so() -> None:
    async with scene() as set_up:
        await set_up.served.cancel()
        await set_up.client.wait_closed()
        closed = set_up.client.closed
        assert closed is not None
        assert (closed.code, closed.reason) == (CODE_ABORTED, "cancelled")


@pytest.mark.parametrize("code", [1, 10, 0x100, OWN_CODES - 1, 1 << 62, -1])
@in_loop
async def test_codes_of_the_protocol_are_not_for_applications(code: int) -> None:
    async with scene() as set_up:
        for ending in (
            set_up.client.close(code),
            set_up.client.cancel(code),
            set_up.server.close(code),
        ):
            with pytest.raises(Misuse, match="is not yours"):
                await ending
        assert set_up.client.closed is None


@in_loop
async def test_a_server_tells_all_its_clients_why_it_closes() -> None:
    async with scene() as set_up:
        await set_up.server.close(OWN_CODES, "maintenance")
        await set_up.server.close()
        await set_up.client.wait_closed()
        closed = set_up.client.closed
        assert closed is not None
        assert (closed.code, closed.reason, closed.by_peer) == (OWN_CODES, "maintenance", True)
        with pytest.raises(Misuse, match="accepts nobody"):
            await set_up.server.accept()


@in_loop
async def test_what_this_side_ended_is_told_with_its_reason() -> None:
    sender, receiver = channel()
    await sender.cancel("no more\x1b[2J")
    with pytest.raises(Misuse, match=r"cancelled on this side \(no more\\x1b\[2J\)"):
        await sender.send(b"")
    await sender.close()
    sender, receiver = channel()
    await receiver.close("enough")
    await receiver.cancel("another reason")
    with pytest.raises(Misuse, match=r"closed on this side \(enough\)"):
        await receiver.receive()
    sender, receiver = channel()
    await sender.close("done")
    with pytest.raises(Misuse, match=r"finished on this side \(done\)"):
        await sender.send(b"")
    await sender.cancel()
    del receiver


@in_loop
async def test_a_connection_and_a_server_are_left_as_they_are_entered() -> None:
    async with scene() as set_up:
        async with set_up.served as served:
            assert served is set_up.served
        closed = set_up.served.closed
        assert closed is not None
        assert closed.code == 0
    async with scene() as set_up:
        with pytest.raises(ZeroDivisionError):
            await _raise_in(set_up)
        closed = set_up.client.closed
        assert closed is not None
        assert closed.code == CODE_ABORTED
        async with set_up.server as server:
            assert "0 connections" in repr(server)
        assert "closed" in repr(server)


async def _raise_in(set_up: Scene) -> None:
    async with set_up.client:
        raise ZeroDivisionError
