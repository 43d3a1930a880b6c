"""One connection of an intake, whatever its protocol: what is durable is acked, and nothing else.

A protocol has a subclass, which turns the events of its engine into what is to be stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from aqueduct_core.engine.engine import StorageEngine
from aqueduct_core.intake.sessions.context import SessionContext
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.intake.storage.pending import Receipt
from aqueduct_core.transport.driver import Driver

EngineT = TypeVar("EngineT", bound=StorageEngine[Any])


class Session(ABC, Generic[EngineT]):
    """A `GroupListener` that passes on to its engine what has become durable.

    Messages are acked and their credit is returned only by `durable`. Ends when the engine is
    closed: then nothing more is acked; what stands in an open group is stored all the same. A
    subclass calls ``context.ended`` with itself then.

    Args:
        peer: its ``host:port``, for logs.
    """

    def __init__(self, peer: str, engine: EngineT, context: SessionContext) -> None:
        self.id = context.new_id()
        self.peer = peer
        self._engine = engine
        self._context = context
        self._driver: Driver | None = None

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self.peer}>"

    @abstractmethod
    def handle(self, events: list[Any]) -> None:
        """Take in all events of one turn of the engine."""

    @abstractmethod
    def is_open(self, channel: int) -> bool:
        """Whether this channel flows to us and has not ended: only then may it be acked."""

    @property
    @abstractmethod
    def channels(self) -> int:
        """Channels that flow to us and have not ended."""

    @property
    def memory(self) -> int:
        """Bytes that the peer makes this session hold beside its engine, about."""
        return 0

    @property
    def sent(self) -> bool:
        """Nothing is on its way to the peer."""
        return self._engine.closed is not None or self._driver is None or self._driver.unsent == 0

    def on_events(self, driver: Driver, events: list[Any]) -> None:
        """Called by the driver, once a turn."""
        self._driver = driver
        driver.held = self._held
        try:
            self.handle(events)
        except Exception:
            if self._engine.closed is not None:
                self._context.ended(self)  # it could not say so itself
            raise

    def durable(self, receipts: list[Receipt]) -> None:
        if self._engine.closed is not None:
            return
        now = self._context.clock()
        for receipt in receipts:
            if self.is_open(receipt.channel):
                self._engine.stored(
                    receipt.channel,
                    receipt.first,
                    receipt.stop,
                    reliable=receipt.reliable,
                    now=now,
                )
            self._engine.consumed(receipt.channel, receipt.size, now)
        self.kick()

    def dropped(self, receipt: Receipt) -> None:
        if self._engine.closed is None:
            now = self._context.clock()
            if not receipt.reliable:
                self._engine.refused(receipt.channel, receipt.first, receipt.stop, now)
            self._engine.consumed(receipt.channel, receipt.size, now)
            self.kick()

    def recorded(self, channels: list[int]) -> None:
        if self._engine.closed is None:
            now = self._context.clock()
            for channel in channels:
                self._engine.confirm(channel, now)
            self.kick()

    @abstractmethod
    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        """A channel has other content under numbers that are stored: close the connection, for it
        cannot be acked. Only where a batch ``resumes``, or its rows have numbers."""

    def failed(self) -> None:
        if self._driver is not None:
            self._driver.fail("the session failed on what was stored")

    def pause(self) -> None:
        self._engine.pause()

    def resume(self) -> None:
        if self._engine.closed is None:
            self._engine.resume(self._context.clock())
            self.kick()

    def shutdown(self, code: int, reason: str) -> None:
        """End the connection; the adapter's ``no_error`` when nothing of it is left to do here."""
        if self._engine.closed is None:
            self._engine.shutdown(code, reason, self._context.clock())
            self.kick()

    def kick(self) -> None:
        """Have the driver carry out what commands of the engine brought about."""
        if self._driver is not None:
            self._driver.kick()

    def _held(self) -> int:
        return self.memory + self._context.groups.memory_of(self)
