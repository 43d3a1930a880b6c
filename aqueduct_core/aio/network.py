"""One network connection below the asyncio API: its engine, its driver, and the room that it has.

The channels that it carries are in ``channel_table``; here they are known only to wake them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.faults import ConnectionOver
from aqueduct_core.transport.driver import Driver

HIGH_WATER = 1024 * 1024
"""Bytes unsent in the transport above which senders wait: some round trips' worth, and small
enough that an ack does not wait behind seconds of data."""

TURN_MESSAGES = 4096
"""Messages of a turn of the event loop above which senders wait for the next one. However small
they are, each costs time, and the peer hears nothing of us meanwhile."""


class Blocked(Protocol):
    """Who has more to send than there is room for."""

    def wake(self) -> None:
        """There may be room again."""


class NetworkConnection:
    """An engine on its link, as the networked channels of a connection see it.

    Senders that find no room, or no place in a table of the engine, are woken when there may be
    some. Ends by ``over``, which calls ``when_closed``.
    """

    def __init__(self, engine: AqueductEngine, on_closed: Callable[[Closed], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.engine = engine
        self.driver: Driver | None = None
        self.closed: Closed | None = None
        self.datagrams = True
        self.when_closed = [on_closed]
        self._handed_over = 0
        self._turn_bytes = self._turn_messages = 0
        self._turn_ends = False
        self._blocked: set[Blocked] = set()
        self._unblocking: asyncio.Task[None] | None = None

    def now(self) -> float:
        return self.loop.time()

    def kick(self) -> None:
        """Let the driver run at the end of this turn of the event loop."""
        if self.driver is not None:
            self.driver.kick()
            if not self._turn_ends:
                self._turn_ends = True
                self.loop.call_soon(self._turned)

    def handed_over(self, size: int, messages: int = 1) -> None:
        """``size`` bytes went to the engine; the link counts them only after the turn."""
        self._handed_over += size
        self._turn_bytes += size
        self._turn_messages += messages

    @property
    def bytes_delivered(self) -> int:
        """About how many bytes of messages have left this end and arrived at the other host: it
        rises while the path takes anything, acked by the peer's application or not."""
        unsent = 0 if self.driver is None else self.driver.unsent
        return self._handed_over - self._turn_bytes - unsent

    def shutdown(self, code: int, reason: str) -> None:
        """Close the connection at once, with what the engine has in hand."""
        if self.closed is None:
            try:
                self.engine.shutdown(code, reason, self.now())
            except ConnectionOver:
                pass
            self.kick()

    def full(self, sender: Blocked) -> bool:
        """Whether the transport holds enough, or this turn has brought enough; the sender is woken
        when it does no more."""
        driver = self.driver
        if driver is None or (
            driver.unsent + self._turn_bytes < HIGH_WATER and self._turn_messages < TURN_MESSAGES
        ):
            return False
        self._blocked.add(sender)
        if self._unblocking is None and self.closed is None:
            self._unblocking = self.loop.create_task(self._await_room())
        return True

    def wake_on_events(self, sender: Blocked) -> None:
        """Wake the sender when events come: acks make room in a table that is full."""
        self._blocked.add(sender)

    def wake_blocked(self) -> None:
        """Events came, or room: wake all who wait for that."""
        if self._blocked:
            blocked, self._blocked = self._blocked, set()
            for sender in blocked:
                sender.wake()

    def lost(self, label: str) -> ConnectionLost:
        """The outcome of a half that was open when the connection ended."""
        closed = self.engine.closed
        if closed is None:
            return ConnectionLost(label)
        return ConnectionLost(label, *closed)

    def over(self, closed: Closed) -> None:
        """The connection has ended, and its halves know it."""
        if self._unblocking is not None:
            self._unblocking.cancel()
            self._unblocking = None
        for callback in self.when_closed:
            callback(closed)

    def _turned(self) -> None:
        """The driver's turn, asked for before this call, is over."""
        self._turn_ends = False
        self._turn_bytes = self._turn_messages = 0

    async def _await_room(self) -> None:
        assert self.driver is not None
        await self.driver.writable(HIGH_WATER)
        self._turn_bytes = self._turn_messages = 0
        self._unblocking = None
        self.wake_blocked()
