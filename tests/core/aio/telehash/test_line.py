"""A line between two engines that a network in memory joins, without sockets: channels of both
sides, and what the line counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aqueduct_core.aio.telehash.line import IncomingChannels, TelehashLine
from aqueduct_core.engine.inputs import Datagram
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.transport.in_memory.link import MemoryLink
from tests.core.aio.telehash.scene import bodies
from tests.support.event_loop import in_loop
from tests.support.virtual_loop import let_happen

STEP = 0.005
COUNT = 200


class MemoryDriver:
    """What a line needs of a driver. The network moves with the clock of the event loop."""

    held = None

    def __init__(self, link: MemoryLink) -> None:
        self.link = link

    def now(self) -> float:
        return self.link.now

    def kick(self) -> None:
        """`moving` sees to it."""


class Joined:
    """Two lines, and the link between them."""

    def __init__(self, **path: Any) -> None:
        config = TelehashConfig(channel_timeout=60)
        self.ours, self.theirs = (
            TelehashLine(HostPort("memory.invalid", 1 + odd), config, IncomingChannels(None))
            for odd in (True, False)
        )
        self.ours.engine = TelehashEngine(odd=True, config=config)
        self.theirs.engine = TelehashEngine(odd=False, config=config)
        self.link = MemoryLink(
            self.ours.engine,
            self.theirs.engine,
            max_datagram_size=1_156,
            on_client_events=lambda events: self._tell(self.ours, events),
            on_server_events=lambda events: self._tell(self.theirs, events),
            **path,
        )
        for line in (self.ours, self.theirs):
            line.driver = MemoryDriver(self.link)  # type: ignore[assignment]

    def _tell(self, line: TelehashLine, events: list[Any]) -> None:
        line.on_events(line.driver, events)

    async def moving(self) -> None:
        while True:
            self.link.run_for(STEP)
            await let_happen(STEP)


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_both_sides_open_channels(loss: float, seed: int) -> None:
    @in_loop
    async def run() -> None:
        joined = Joined(seed=seed, loss=loss, duplicate=0.1, delay=0.01, jitter=0.03)
        moving = asyncio.create_task(joined.moving())

        async def send(line: TelehashLine) -> None:
            async with line.open("_t", b"0") as channel:
                for number in range(1, COUNT):
                    await channel.send(b"%d" % number)

        async def take(line: TelehashLine) -> list[bytes]:
            return await bodies(await anext(line))

        both = (joined.ours, joined.theirs)
        *_, first, second = await asyncio.gather(*map(send, both), *map(take, both))
        assert first == second == [*(b"%d" % number for number in range(COUNT)), b""]
        moving.cancel()
        await asyncio.gather(moving, return_exceptions=True)
        assert [line.channels for line in both] == [0, 0]

    run()


@in_loop
async def test_what_cannot_be_read_is_counted() -> None:
    joined = Joined()
    joined.link.run_for(0.1)
    joined.ours.engine.handle(Datagram(b"\x00\x05{"), joined.ours.now())
    joined.ours.engine.handle(Datagram(b""), joined.ours.now())
    joined.link.run_for(0.1)
    assert (joined.ours.packets_dropped, joined.theirs.packets_dropped) == (2, 0)
    assert "0 channels" in repr(joined.ours)
    assert joined.ours.peer_name == "memory.invalid:2"
