"""Publish a media, object by object."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from aqueduct_core.aio.quicr.connection import TransferConnection
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.quicr.events import (
    EndReason,
    ObjectsDropped,
    PostAccepted,
    Pressure,
    QuicrEvent,
    TransactionEnded,
)
from aqueduct_core.quicr.media.object_queue import ObjectQueue
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.urls import url_text
from aqueduct_core.transport.awaiting import Signal


class Publisher:
    """A media that goes to an origin or a relay.

    Ends by `finish`, when the receiver has it all, or at the end of its block: by `finish`, or, if
    that raises, by `cancel`.

    Attributes:
        datagram: it goes in datagrams; None: nobody has accepted it yet.
        pressure: what was told last of the way to the receiver, for a publisher that can send less.
        dropped: objects that were given up for want of room (`DropSettings`).
    """

    def __init__(
        self,
        connection: TransferConnection,
        stream: int,
        url: bytes,
        queue: ObjectQueue,
        max_queued: int,
    ) -> None:
        self.datagram: bool | None = None
        self.pressure = Pressure(None, 0.0, 0)
        self.dropped = 0
        self._connection = connection
        self._stream = stream
        self._url = url
        self._queue = queue
        self._max_queued = max_queued
        self._changed = Signal()
        self._error: ChannelEnded | None = None
        self._complete = False
        queue.on_advance = self._changed.fire

    def __repr__(self) -> str:
        return f"<Publisher of {self._url!r} at {self.next}>"

    @property
    def next(self) -> Position:
        """The next object of the group."""
        return self._queue.next

    @property
    def queued(self) -> int:
        """Bytes of objects that wait to be sent."""
        return self._queue.size

    async def send(self, payload: bytes, *, flags: int = 0, new_group: bool = False) -> Position:
        """The next object, or the first one of the next group; where it stands. Waits while more
        than ``max_queued`` bytes wait to be sent.

        Args:
            payload: not empty.
            flags: whether, and how soon, it may be given up where there is no room (0: never;
                `QuicrConfig.dropping`).

        Raises:
            MediaError: the payload or the flags cannot be sent; nothing has changed.
            ChannelEnded: CANCELLED: the receiver takes no more of it; LOST: the connection is over.
        """
        self._check()
        position = self.next
        if new_group and position.object:
            position = Position(position.group + 1, 0)
        engine, now = self._connection.engine, self._connection.driver.now()
        self._queue.append(position, payload, flags, now)
        engine.wake(self._stream, now)
        self._connection.kick()
        await self._changed.until(
            lambda: self._error is not None or self._queue.size <= self._max_queued
        )
        self._check()
        return position

    async def finish(self) -> None:
        """There is no object more: return when the receiver has them all. May be called again.

        Raises: ChannelEnded, as of `send`.
        """
        self._queue.finish()
        engine, now = self._connection.engine, self._connection.driver.now()
        engine.wake(self._stream, now)
        self._connection.kick()
        await self._changed.until(lambda: self._complete or self._error is not None)
        self._check()

    def cancel(self) -> None:
        """Send nothing more of it, and name no final point."""
        engine, now = self._connection.engine, self._connection.driver.now()
        engine.cancel(self._stream, now)
        self._connection.kick()
        self.lost(self._ended("this side"))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.finish()
        else:
            self.cancel()

    def hear(self, event: QuicrEvent, now: float) -> None:
        match event:
            case PostAccepted(_, datagram):
                self.datagram = datagram
            case Pressure():
                self.pressure = event
            case ObjectsDropped(_, positions):
                self.dropped += len(positions)
            case TransactionEnded(_, EndReason.COMPLETE):
                self._complete = True
                self._connection.forget(self._stream)
            case TransactionEnded(_, reason, by_peer):
                if reason is not EndReason.LOST:  # of which the connection tells more
                    self.lost(self._ended("the receiver" if by_peer else "this side"))
                    self._connection.forget(self._stream)
        self._changed.fire()

    def lost(self, error: ChannelEnded) -> None:
        if not self._complete and self._error is None:
            self._error = error
        self._changed.fire()

    def _ended(self, who: str) -> ChannelEnded:
        return ChannelEnded(
            "CANCELLED",
            f"The media '{url_text(self._url)}' at {self._connection.where} was ended by {who} "
            "before its final point",
            "Publish it again, unless the receiver's log says that an object of it is too large",
        )

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
