"""One network connection below the asyncio API: its engine, its driver, and the room that it has.

The channels that it carries are in ``channel_table``; here they are known only to wake them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from aqueduct_core.aio.delivery_watch import DeliveryWatch
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.sender_line import Blocked, SenderLine
from aqueduct_core.aqueduct.engine import AqueductEngine
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.faults import ConnectionOver
from aqueduct_core.errors import AqueductError
from aqueduct_core.transport.link import Address, LinkCounts

HIGH_WATER = 1024 * 1024
"""Bytes unsent in the transport above which senders wait: some round trips' worth, and small
enough that an ack does not wait behind seconds of data."""

TURN_MESSAGES = 4096
"""Messages of a turn of the driver above which senders wait for the next one. However small they
are, each costs time, and the peer hears nothing of us meanwhile."""

URGENT = 16 << 10
"""Bytes that wait for a turn above which it is not put off: they are worth one of their own."""


class LinkDriver(Protocol):
    """What carries an engine: a ``Driver`` over a network, or one in memory for tests."""

    turns: int

    @property
    def peer(self) -> Address: ...
    @property
    def peer_certificate_fingerprint(self) -> str | None: ...
    @property
    def statistics(self) -> LinkCounts: ...
    @property
    def unsent(self) -> int: ...
    @property
    def early(self) -> bool:
        """What is sent leaves before the handshake is complete."""

    @property
    def early_accepted(self) -> bool | None: ...
    @property
    def ready(self) -> bool:
        """The handshake is complete."""

    def kick(self, *, urgent: bool = False) -> None: ...
    def kick_later(self) -> None: ...
    def probe(self) -> bool:
        """Ask the peer's host whether it is there; whether that was possible."""

    def close(self, code: int = 0, reason: str = "") -> None: ...
    def abandon(self, reason: str = "abandoned") -> None: ...
    def why_not_ready(self) -> AqueductError: ...
    async def writable(self, high: int) -> None: ...
    async def wait_closed(self) -> None: ...


class NetworkConnection:
    """An engine on its link, as the networked channels of a connection see it.

    Senders that find no room, or no place in a table of the engine, are woken when there may be
    some. Ends by ``over``, which calls ``when_closed``.
    """

    def __init__(self, engine: AqueductEngine, on_closed: Callable[[Closed], None]) -> None:
        self.loop = asyncio.get_running_loop()
        self.engine = engine
        self.driver: LinkDriver | None = None
        self.closed: Closed | None = None
        self.datagrams = True
        self.watch: DeliveryWatch | None = None
        self.when_closed = [on_closed]
        self._handed_over = 0
        self._turn = 0
        self._turn_bytes = self._turn_messages = 0
        self._line = SenderLine()
        self._serving: asyncio.Task[None] | None = None
        self._table_line = SenderLine()
        self._table_call: asyncio.Handle | None = None

    def now(self) -> float:
        return self.loop.time()

    def kick(self) -> None:
        """Let the driver run soon, with what the application wants the peer to have."""
        if self.watch is not None:
            self.watch.wake()
        if self.driver is not None:
            self.driver.kick(urgent=self._turn_bytes >= URGENT)

    def kick_later(self) -> None:
        """Let the driver run shortly, with what the peer can wait for."""
        if self.driver is not None:
            self.driver.kick_later()

    def handed_over(self, sender: Blocked, size: int, messages: int = 1) -> None:
        """``size`` bytes of it went to the engine; the link counts them only after the turn."""
        self._look()
        self._handed_over += size
        self._turn_bytes += size
        self._turn_messages += messages
        self._line.charge(sender, size)
        self._table_line.charge(sender, size)

    @property
    def bytes_delivered(self) -> int:
        """About how many bytes of messages have left this end and arrived at the other host: it
        rises while the path takes anything, acked by the peer's application or not."""
        self._look()
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
        """Whether the transport holds enough, or this turn has brought enough, or others wait for
        that to change; the sender is woken in its turn."""
        if self.driver is None or (self._line.may_pass(sender) and not self._is_full):
            return False
        self._line.join(sender)
        if self._serving is None and self.closed is None:
            self._serving = self.loop.create_task(self._serve())
        return True

    def wake_on_events(self, sender: Blocked) -> None:
        """Wake the sender when events come: acks make room in a table that is full."""
        self._table_line.join(sender)

    def wake_blocked(self) -> None:
        """Events came: call those who wait for that, as long as none of them waits on."""
        if self._table_line and self._table_call is None:
            self._call_for_table()

    def lost(self, label: str) -> ConnectionLost:
        """The outcome of a half that was open when the connection ended."""
        closed = self.engine.closed
        if closed is None:
            return ConnectionLost(label)
        return ConnectionLost(label, *closed)

    def probe(self) -> None:
        """Ask the peer's host for a sign of life."""
        if self.driver is not None and self.driver.probe():
            self.driver.kick(urgent=True)

    def over(self, closed: Closed) -> None:
        """The connection has ended, and its halves know it."""
        if self.watch is not None:
            self.watch.stop()
        for pending in (self._serving, self._table_call):
            if pending is not None:
                pending.cancel()
        self._serving = self._table_call = None
        self._line.clear()
        self._table_line.clear()
        for callback in self.when_closed:
            callback(closed)

    @property
    def _is_full(self) -> bool:
        assert self.driver is not None
        self._look()
        return (
            self.driver.unsent + self._turn_bytes >= HIGH_WATER
            or self._turn_messages >= TURN_MESSAGES
        )

    def _look(self) -> None:
        """Whether the driver has had a turn since: the link counts now what was handed over."""
        turn = 0 if self.driver is None else self.driver.turns
        if turn != self._turn:
            self._turn = turn
            self._turn_bytes = self._turn_messages = 0

    async def _serve(self) -> None:
        """Call those who wait for room while there is any. Each has steps of its task to use it, as
        long as it does, before the next ones are called."""
        assert self.driver is not None
        while self._line:
            if self._is_full:
                await self.driver.writable(HIGH_WATER)
            self._line.call()
            await asyncio.sleep(0)
            while not self._is_full and self._line.goes_on():
                await asyncio.sleep(0)
        self._serving = None

    def _call_for_table(self) -> None:
        self._table_call = None
        self._table_line.call()
        if self._table_line:
            self._table_call = self.loop.call_soon(self._call_on)

    def _call_on(self) -> None:
        """Call the next ones, unless one of the last ones has found the table full."""
        self._table_call = None
        if self._table_line and not self._table_line.refused:
            self._call_for_table()
