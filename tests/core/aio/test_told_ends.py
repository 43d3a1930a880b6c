"""Whoever ended a channel or a connection, and why, is told at both ends: by the errors of the
library, and by what `listen` and `subscribe` print."""

from __future__ import annotations

import io
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from aqueduct_core.aio.halves import Receiver, Sender, channel
from aqueduct_core.aio.outcomes import Outcome
from aqueduct_core.aqueduct.outbox import Rank
from aqueduct_core.cli.console.output import JsonLines
from aqueduct_core.cli.console.printing import Printer
from aqueduct_core.cli.reading import ChannelPrinter
from aqueduct_core.engine.actions import CloseLink
from aqueduct_core.engine.close_codes import CloseOrigin
from tests.core.aio.scene import Scene, scene
from tests.support.event_loop import eventually, in_loop


class Case(NamedTuple):
    """``end`` ends it. What the sender's error says, and what is printed of the receiver's channel
    and of its connection; None: nothing."""

    end: Callable[[Scene, Sender], Awaitable[None]]
    sender: str | None
    channel: str
    connection: str | None


async def cancel(_: Scene, sender: Sender) -> None:
    await sender.cancel()


async def finish(_: Scene, sender: Sender) -> None:
    await sender.finish()


async def close_at_the_sender(scene: Scene, _: Sender) -> None:
    scene.client._network.shutdown(4_097, "enough")


async def close_at_the_receiver(scene: Scene, _: Sender) -> None:
    scene.served._network.shutdown(4_098, "maintenance")


async def abort_at_the_receiver(scene: Scene, _: Sender) -> None:
    scene.served.abort()


async def violate(scene: Scene, _: Sender) -> None:
    """The client breaks the protocol: a second set of connection headers."""
    engine = scene.client._network.engine
    stream_id = engine._outbox.open(Rank.PREAMBLE)
    engine._outbox.write(stream_id, bytes.fromhex("0200"), Rank.PREAMBLE, end=True)
    scene.client._network.kick()


async def break_quic(scene: Scene, _: Sender) -> None:
    link: Any = scene.served._driver.link
    link.apply([CloseLink(3, "a test", CloseOrigin.TRANSPORT)], 0.0)
    scene.served._driver.kick()


async def vanish(scene: Scene, _: Sender) -> None:
    """Nothing more leaves either end."""
    for connection in (scene.client, scene.served):
        connection._driver._send = lambda datagrams: None


CASES = {
    "cancelled": Case(cancel, "was cancelled on this side", "its sender gave it up", None),
    "finished": Case(finish, None, "", None),
    "closed by the sender's side": Case(
        close_at_the_sender,
        "closed by this side with code 4097 (enough)",
        "closed by peer, code 4097: enough",
        "closed by peer, code 4097: enough",
    ),
    "closed by the receiver's side": Case(
        close_at_the_receiver,
        "closed by the peer with code 4098 (maintenance)",
        "closed by this side, code 4098: maintenance",
        "closed by this side, code 4098: maintenance",
    ),
    "aborted": Case(
        abort_at_the_receiver,
        "closed by the peer with code 257 (aborted)",
        "closed by this side, code 257: aborted",
        "closed by this side, code 257: aborted",
    ),
    "violation": Case(
        violate,
        "closed by the peer with code 4 (connection headers came twice)",
        "closed by this side, code 4: connection headers came twice",
        "closed by this side, code 4: connection headers came twice",
    ),
    "an error of QUIC": Case(
        break_quic,
        "lost: QUIC's FLOW_CONTROL_ERROR (0x3) from the peer: a test",
        "lost: QUIC's FLOW_CONTROL_ERROR (0x3) from this side: a test",
        "lost: QUIC's FLOW_CONTROL_ERROR (0x3) from this side: a test",
    ),
    "silence": Case(vanish, "lost: idle timeout", "lost: idle timeout", "lost: idle timeout"),
}


@pytest.mark.parametrize("name", CASES)
@in_loop
async def test_who_ended_it_and_why_is_told(name: str) -> None:
    case, out = CASES[name], io.BytesIO()
    async with scene() as set_up, Printer() as printer:
        reading = ChannelPrinter(JsonLines(out), printer, None)
        reading.add(set_up.served, set_up.served.entrypoint)
        sender, receiver = channel(name="logs")
        await set_up.client.entrypoint.send(b"", attach=receiver)
        await sender.send(b"hello")
        await sender.flush()

        def told(kind_of: int) -> list[str]:
            rows = [json.loads(line) for line in out.getvalue().splitlines()]
            ends = ("finished", "cancelled", "closed", "disconnected")
            return [
                row["reason"]
                for row in rows
                if row.get("kind") in ends and row["channel"] == (kind_of or None)
            ]

        await eventually(lambda: b"hello" in out.getvalue())
        await case.end(set_up, sender)
        await eventually(lambda: bool(told(sender_channel)))
        assert told(sender_channel) == [case.channel]
        if case.connection is not None:
            await eventually(lambda: bool(told(0)))
            assert case.connection in told(0)
        if case.sender is not None:
            await eventually(lambda: sender._present().done)
            with pytest.raises((Outcome, RuntimeError)) as caught:
                await sender.send(b"more")
            assert case.sender in str(caught.value)
            assert "'logs'" in str(caught.value)
        await reading.stop()


sender_channel = 8
"""The first channel that a client makes."""


@in_loop
async def test_a_receiver_that_closed_is_named_to_the_sender() -> None:
    async with scene() as set_up:
        sender, receiver = channel(name="logs")
        (far,) = await set_up.carry(receiver)
        assert isinstance(far, Receiver)
        await far.close()
        await eventually(lambda: sender._present().done)
        with pytest.raises(Outcome, match=r"the receiver of channel 8 'logs' closed it with 0"):
            await sender.send(b"more")
