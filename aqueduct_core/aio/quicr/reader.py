"""Read a media, object by object."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from aqueduct_core.aio.quicr.connection import TransferConnection
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.quicr.events import (
    EndReason,
    FinalPoint,
    Fragments,
    Pressure,
    QuicrEvent,
    StartPoint,
    TransactionEnded,
)
from aqueduct_core.quicr.media.assembly import MediaObject
from aqueduct_core.quicr.media.position import Position
from aqueduct_core.quicr.media.reception import Conflict, Gap, ObjectOrder, Reception
from aqueduct_core.quicr.urls import url_text
from aqueduct_core.transport.awaiting import Signal

UNTAKEN = 4 << 20
"""Bytes of objects that a program has not taken. Above it a stream gets no credit, and what comes
in datagrams is left out, which leaves gaps."""


class MediaReader:
    """An async iterator of `MediaObject`, holes among them (``payload`` None).

    Iteration stops behind the final point, when all objects before it were given, or told as gaps.
    It raises `ChannelEnded`: CANCELLED, the media ended before its final point; TOO_LARGE, one of
    its objects has more bytes than `QuicrConfig.max_object`; LOST, the connection is over;
    NO_REPLY, nothing came for as long as ``timeout`` says.

    Attributes:
        gaps: stretches of objects that do not come, told before the object behind them is given.
        conflicts: objects that came in two forms.
        final: behind the last object, once that is known.
        sure: the sender has named ``final``; else its stream has just ended there, as that of a
            sender does who gave up: there may have been more.
    """

    def __init__(
        self,
        connection: TransferConnection,
        stream: int,
        url: bytes,
        *,
        order: ObjectOrder,
        hole_timeout: float,
        timeout: float | None,
        begin: Position,
        max_bytes: int,
    ) -> None:
        self.gaps: list[Gap] = []
        self.conflicts: list[Conflict] = []
        self.final: Position | None = None
        self.sure = True
        self._connection = connection
        self._stream = stream
        self._url = url
        self._timeout = timeout
        self._reception = Reception(
            order=order, hole_timeout=hole_timeout, max_bytes=max_bytes, begin=begin
        )
        self._begin = begin
        self._objects: deque[MediaObject] = deque()
        self._bytes = 0
        self._credit = 0
        self._changed = Signal()
        self._timer: asyncio.TimerHandle | None = None
        self._heard = 0
        self._over = False
        self._error: ChannelEnded | None = None

    def __repr__(self) -> str:
        return f"<MediaReader of {self._url!r} at {self._reception.front}>"

    @property
    def front(self) -> Position:
        """All objects before it are here, or told as gaps."""
        return self._reception.front

    def cancel(self) -> None:
        """Read no more of it."""
        if not self._over:
            self._finish()
            self._connection.engine.cancel(self._stream, self._connection.driver.now())
            self._connection.kick()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MediaObject:
        while not self._objects:
            if self._over:
                if self._error is not None:
                    raise self._error
                raise StopAsyncIteration
            await self._more()
        taken = self._objects.popleft()
        self._bytes -= taken.size
        if self._credit and self._bytes <= UNTAKEN // 2:
            self._give_credit()
        return taken

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cancel()

    def hear(self, event: QuicrEvent, now: float) -> None:
        if isinstance(event, Pressure):
            return  # it is of the way to the peer: nothing of this media has come
        self._heard += 1
        reception = self._reception
        match event:
            case Fragments(_, fragments, size):
                self._credit += size
                if size or self._bytes <= UNTAKEN:
                    reception.handle(fragments, now)
                if self._bytes <= UNTAKEN:
                    self._give_credit()
            case StartPoint(_, start):
                reception.start_at(start, now)
            case FinalPoint(_, final, sure):
                self.final, self.sure = final, sure
                reception.finish(final, now)
            case TransactionEnded(_, EndReason.CANCELLED, by_peer=True):
                self._end(
                    ChannelEnded(
                        "CANCELLED",
                        f"{self._name} ended before its final point",
                        "Ask for it again",
                    )
                )
            case TransactionEnded(_, EndReason.TOO_LARGE, _, position):
                self._end(
                    ChannelEnded(
                        "TOO_LARGE",
                        f"object {position} of {self._name} is larger than this side takes",
                        "Raise max_object of its QuicrConfig, or have smaller objects published",
                    )
                )
        self._advance(now)

    def lost(self, error: ChannelEnded) -> None:
        self._end(error)

    def _advance(self, now: float) -> None:
        """Give on what is next, and end behind the last of it."""
        reception = self._reception
        self.gaps += reception.gaps()
        self.conflicts += reception.conflicts()
        for each in reception.take():
            if each.position >= self._begin:
                self._objects.append(each)
                self._bytes += each.size
        if reception.complete and not self._over:
            self._connection.engine.confirm(self._stream, now)
            self._connection.kick()
            self._finish()
        self._set_timer()
        self._changed.fire()

    def _set_timer(self) -> None:
        at = None if self._over else self._reception.wake_at
        if self._timer is not None:
            if at == self._timer.when():
                return
            self._timer.cancel()
            self._timer = None
        if at is not None:
            self._timer = asyncio.get_running_loop().call_at(at, self._rung)

    def _rung(self) -> None:
        self._timer = None
        now = self._connection.driver.now()
        self._reception.tick(now)
        self._advance(now)

    async def _more(self) -> None:
        """Wait for an object, or the end."""
        heard = self._heard
        while not (self._objects or self._over):
            try:
                async with asyncio.timeout(self._timeout):
                    await self._changed.wait()
            except TimeoutError:
                if self._heard == heard:
                    raise ChannelEnded(
                        "NO_REPLY",
                        f"Nothing of {self._name} came in {self._timeout:g} s",
                        "Look whether somebody publishes it, or raise the timeout",
                    ) from None
            heard = self._heard

    def _give_credit(self) -> None:
        if self._credit:
            self._connection.engine.consumed(
                self._stream, self._credit, self._connection.driver.now()
            )
            self._credit = 0
            self._connection.kick()

    def _end(self, error: ChannelEnded) -> None:
        if not self._over:
            self._error = error
            self._finish()
        self._changed.fire()

    def _finish(self) -> None:
        self._over = True
        self._connection.forget(self._stream)
        self._set_timer()
        self._give_credit()

    @property
    def _name(self) -> str:
        return f"the media '{url_text(self._url)}' at {self._connection.where}"
