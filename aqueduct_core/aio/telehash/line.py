"""A line: one connection with one peer, with any number of channels of both sides."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Self

from aqueduct_core.aio.telehash.channel import TelehashChannel
from aqueduct_core.engine.close_codes import how_ended
from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.telehash.config import TelehashConfig
from aqueduct_core.telehash.engine import TelehashEngine
from aqueduct_core.telehash.events import (
    ChannelClosed,
    ChannelOpened,
    LineReady,
    PacketsDropped,
    TelehashEvent,
)
from aqueduct_core.telehash.faults import CloseCode
from aqueduct_core.transport.awaiting import Signal
from aqueduct_core.transport.driver import Driver

WAITING = 1_024
"""Channels of peers that no program has taken yet. To the next one the answer is an ``err``."""

CHANNEL_BYTES = 1 << 10
"""Of a channel, without what it holds."""


class IncomingChannels:
    """Channels that peers open, until a program takes them.

    Args:
        types: those that are taken; None: all. Of another type: ``err`` at once (T2).
        most: may wait to be taken.
    """

    def __init__(self, types: Collection[str] | None, most: int = WAITING) -> None:
        self._types = None if types is None else frozenset(types)
        self._most = most
        self._waiting: deque[TelehashChannel] = deque()
        self._changed = Signal()
        self._closed = False

    def add(self, channel: TelehashChannel) -> None:
        """A peer has opened it."""
        if self._types is not None and channel.type not in self._types:
            channel.fail("unknown type")
        elif self._closed or len(self._waiting) >= self._most:
            channel.fail("busy")
        else:
            self._waiting.append(channel)
            self._changed.fire()

    def close(self) -> None:
        """There will be no more."""
        self._closed = True
        self._changed.fire()

    async def next(self) -> TelehashChannel | None:
        """Take the one that waits for longest; None: there will be no more."""
        await self._changed.until(lambda: bool(self._waiting) or self._closed)
        return None if self._closed else self._waiting.popleft()


class TelehashLine:
    """A connection, with all channels of both sides. Ends by `close`, or at the end of its block;
    channels that are open then are lost. Belongs to the event loop in which it was made.

    An async iterator of the channels that the peer opens, where it was dialled with ``types``;
    those of the lines of a listener are the listener's to give.
    """

    def __init__(
        self,
        peer: HostPort,
        config: TelehashConfig,
        incoming: IncomingChannels,
        when_lost: Callable[[TelehashLine], None] = lambda line: None,
    ) -> None:
        self.engine: TelehashEngine
        self.driver: Driver
        self.config = config
        self._peer = peer
        self._incoming = incoming
        self._when_lost = when_lost
        self._channels: dict[int, TelehashChannel] = {}
        self.held = 0
        self.packets_dropped = 0
        """Packets of the peer that could not be read, or came at the wrong time; `counts` of the
        engine says why."""

    def __repr__(self) -> str:
        return f"<TelehashLine with {self.peer_name}, {len(self._channels)} channels>"

    @property
    def peer_name(self) -> str:
        return str(self._peer)

    @property
    def channels(self) -> int:
        """How many are open."""
        return len(self._channels)

    @property
    def how_lost(self) -> str:
        closed = self.engine.closed
        return "closed" if closed is None else how_ended(closed)

    @property
    def limit(self) -> int:
        """Bytes of a packet, with its head, that fit."""
        return self.engine.limit

    def open(
        self,
        type: str,
        body: bytes = b"",
        *,
        js: Mapping[str, Any] | None = None,
        end: bool = False,
        reliable: bool = True,
        timeout: float | None = None,
    ) -> TelehashChannel:
        """Open a channel; it begins with a packet, which leaves at once.

        Args:
            type: what it is for; those of applications begin with ``_`` (P4).
            body, js, end: of the first packet, as of `TelehashChannel.send`.
            reliable: in order, each once (T1); else as datagrams.
            timeout: seconds without a packet of the peer after which reading fails; None: never.

        Raises:
            PacketTooLarge: the first packet does not fit.
            TelehashError: there are no numbers left for another channel on this line.
            ChannelEnded: LOST: the line is over.
        """
        if self.engine.closed is not None:
            raise ChannelEnded(
                "LOST", f"The line with {self.peer_name} is over: {self.how_lost}", "Dial again"
            )
        number = self.engine.open(
            type, reliable=reliable, js=js, body=body, end=end, now=self.now()
        )
        channel = TelehashChannel(self, number, type, reliable=reliable, timeout=timeout)
        channel.opened(end=end)
        self._channels[number] = channel
        self.kick()
        return channel

    def shutdown(self, reason: str = "") -> None:
        """Close the line soon, behind what was given to it."""
        self.engine.shutdown(CloseCode.NO_ERROR, reason, self.now())
        self.driver.kick(urgent=True)

    async def close(self, reason: str = "") -> None:
        """Close the line. What was not acked is not waited for. May be called again."""
        self.shutdown(reason)
        await self.driver.wait_closed()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TelehashChannel:
        channel = await self._incoming.next()
        if channel is None:
            raise StopAsyncIteration
        return channel

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def now(self) -> float:
        return self.driver.now()

    def kick(self) -> None:
        self.driver.kick()

    def on_events(self, driver: Driver, events: list[TelehashEvent]) -> None:
        """Called by the driver, once a turn."""
        self.driver = driver
        if driver.held is None:
            driver.held = self._held
        for event in events:
            match event:
                case ChannelOpened(number, type, reliable):
                    channel = TelehashChannel(self, number, type, reliable=reliable, timeout=None)
                    self._channels[number] = channel
                    self._incoming.add(channel)
                case LinkLost():
                    self._when_lost(self)
                    self._when_lost = lambda line: None
                case PacketsDropped(_, count, _):
                    self.packets_dropped += count
                case LineReady():
                    pass
                case ChannelClosed(number):
                    if (ended := self._channels.pop(number, None)) is not None:
                        ended.hear(event)
                case _:
                    if (found := self._channels.get(event.channel)) is not None:
                        found.hear(event)

    def _held(self) -> int:
        return self.held + CHANNEL_BYTES * len(self._channels)
