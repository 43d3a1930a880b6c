"""Senders of unreliable messages over a link slower than they are: virtual time, no socket."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from aqueduct_core.aio.channel_table import ChannelTable
from aqueduct_core.aio.halves import Sender
from aqueduct_core.aio.send_state import SendState
from aqueduct_core.aqueduct.engine import AqueductEngine, Config, Side
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.support.event_loop import in_loop
from tests.support.rules import rule

MESSAGES = 400


class Turner:
    """Takes the place of a driver: the test itself has the link take its turns."""

    unsent = turns = 0

    def kick(self, *, urgent: bool) -> None: ...


class Narrow:
    """A client's channels on a link in memory."""

    def __init__(self, config: Config) -> None:
        engine = AqueductEngine(Side.CLIENT, (), config)
        server = AqueductEngine(Side.SERVER, (), Config(auto_accept=True))
        self.channels = ChannelTable(engine, lambda headers: None, lambda closed: None)
        self.channels.network.driver = driver = cast(Driver, Turner())
        self.link = MemoryLink(
            engine, server, rate=125_000.0, queue=20_000, delay=0.02,
            on_client_events=lambda event: self.channels.on_events(driver, event),
        )  # fmt: skip
        self.channels.network.now = lambda: self.link.now  # type: ignore[method-assign]
        assert isinstance(self.channels.entrypoint, SendState)
        self.link.run_until(lambda: engine.peer_headers is not None)
        self.sender = Sender(self.channels.entrypoint)
        self.sender.use("unreliable")

    async def until(self, task: asyncio.Future[Any]) -> None:
        """Move the link's time until the task is done."""
        for _ in range(100_000):
            await asyncio.sleep(0)
            if task.done():
                task.result()
                return
            self.link.step()
        raise AssertionError("nothing more happens")


@rule("AQ-FLOW-5")
@pytest.mark.parametrize("size", [1_000, 20])
@pytest.mark.parametrize("how", ["send", "send_many", "with headers", "too large in between"])
@in_loop
async def test_who_may_wait_loses_nothing_to_its_own_queue(how: str, size: int) -> None:
    narrow = Narrow(Config(send_queue_messages=10))
    sender, link = narrow.sender, narrow.link

    async def offer() -> None:
        if how == "send_many":
            assert await sender.send_many([bytes(size)] * MESSAGES) == MESSAGES
        elif how == "too large in between":
            await sender.send_many([bytes(size), *[bytes(5_000)] * 3, *[bytes(size)] * MESSAGES])
        else:
            headers = {"k": "v"} if how == "with headers" else {}
            for _ in range(MESSAGES):
                await sender.send(bytes(size), headers=headers)
        await sender.finish()

    await narrow.until(asyncio.ensure_future(offer()))
    counts, lost = sender.statistics, link.client.counts.datagrams_lost
    assert counts.nacked == lost
    assert counts.acked == counts.sent - lost
    assert counts.sent - counts.reliable_sent == MESSAGES + (how == "too large in between")
    assert link.now >= MESSAGES * size / 125_000
