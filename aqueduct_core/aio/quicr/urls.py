"""Hear which media there are."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

from aqueduct_core.aio.quicr.connection import TransferConnection
from aqueduct_core.errors import ChannelEnded
from aqueduct_core.quicr.events import EndReason, Notified, QuicrEvent, TransactionEnded
from aqueduct_core.transport.awaiting import Signal


class UrlSubscription:
    """An async iterator of URLs, each once (Q25). Ends by `cancel`, or at the end of its block;
    raises `ChannelEnded` when the peer ends it (CANCELLED), or the connection is over (LOST)."""

    def __init__(self, connection: TransferConnection, stream: int) -> None:
        self._connection = connection
        self._stream = stream
        self._arrived: deque[bytes] = deque()
        self._known: set[bytes] = set()
        self._changed = Signal()
        self._cancelled = False
        self._error: ChannelEnded | None = None

    def cancel(self) -> None:
        """Hear of no more of them."""
        self._cancelled = True
        self._connection.engine.cancel(self._stream, self._connection.driver.now())
        self._connection.forget(self._stream)
        self._connection.kick()
        self._changed.fire()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        await self._changed.until(
            lambda: bool(self._arrived) or self._cancelled or self._error is not None
        )
        if self._arrived:
            return self._arrived.popleft()
        if self._cancelled or self._error is None:
            raise StopAsyncIteration
        raise self._error

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
        match event:
            case Notified(_, url) if url not in self._known:
                self._known.add(url)
                self._arrived.append(url)
            case TransactionEnded(_, EndReason.CANCELLED):
                where = self._connection.where
                self._connection.forget(self._stream)
                self.lost(
                    ChannelEnded(
                        "CANCELLED",
                        f"{where} has ended the subscription",
                        "Subscribe again",
                    )
                )
        self._changed.fire()

    def lost(self, error: ChannelEnded) -> None:
        if self._error is None:
            self._error = error
        self._changed.fire()
