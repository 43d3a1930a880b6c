"""Many senders that share the turns of a connection: virtual time, no socket."""

from __future__ import annotations

import asyncio
from typing import cast

from aqueduct_core.aio.network import TURN_MESSAGES, NetworkConnection
from aqueduct_core.aio.sender_line import CALLED
from aqueduct_core.aqueduct.engine import AqueductEngine, Side
from aqueduct_core.transport.driver import Driver
from tests.support.event_loop import in_loop

EACH = 25
"""Messages of a sender: a turn has room for some of them."""


class Turner:
    """Takes the place of a driver: its turns come when somebody waits for room."""

    unsent = turns = 0

    async def writable(self, high: int) -> None:
        self.turns += 1


class OneByOne:
    """Sends a message when there is room, then does something else that costs no time."""

    def __init__(self, network: NetworkConnection) -> None:
        self._network = network
        self._room = asyncio.Event()
        self.calls = 0
        self.left = EACH

    def wake(self) -> None:
        self.calls += 1
        self._room.set()

    async def run(self, order: list[OneByOne]) -> None:
        while self.left:
            while self._network.full(self):
                self._room.clear()
                await self._room.wait()
            self._network.handed_over(self, 100)
            order.append(self)
            self.left -= 1
            await asyncio.sleep(0)


async def sent(count: int) -> tuple[list[OneByOne], list[OneByOne], int]:
    """So many senders; the order in which they sent, and the turns that it took."""
    network = NetworkConnection(AqueductEngine(Side.CLIENT, ()), lambda closed: None)
    turner = Turner()
    network.driver = cast(Driver, turner)
    senders = [OneByOne(network) for _ in range(count)]
    order: list[OneByOne] = []
    await asyncio.gather(*(sender.run(order) for sender in senders))
    return senders, order, turner.turns


@in_loop
async def test_who_is_called_goes_on_for_some_steps_before_the_next_are_called() -> None:
    count = 4 * CALLED
    assert count * EACH > 4 * TURN_MESSAGES
    senders, order, turns = await sent(count)
    assert turns == count * EACH // TURN_MESSAGES
    assert sum(sender.calls for sender in senders) <= 3 * count
    behind = order[TURN_MESSAGES:]  # before that nobody waited
    assert len(set(behind[: 8 * CALLED])) <= CALLED + CALLED // 2


@in_loop
async def test_the_next_are_called_though_the_first_have_more() -> None:
    """Each sender has had its calls before one of them has had two more."""
    senders, _, _ = await sent(2 * CALLED)
    assert {sender.left for sender in senders} == {0}
    calls = [sender.calls for sender in senders]
    assert max(calls) - min(calls) <= 1
