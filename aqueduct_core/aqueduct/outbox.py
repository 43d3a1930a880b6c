"""What goes out: streams of ours, datagrams, and the order in which they leave.

Bytes for one stream within one burst leave as one order. Control frames leave before messages,
so that a queue of messages never holds back an ack or an end (H12).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from aqueduct_core.aqueduct.faults import Code, PeerFault, ResetCode
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.engine.actions import (
    Action,
    Admit,
    CloseLink,
    Consumed,
    ResetStream,
    SendDatagram,
    WriteStream,
)
from aqueduct_core.engine.streams import STEP, first_stream


class Rank(IntEnum):
    """Who leaves first within one burst. No message is on a stream of the first three: they leave
    ahead of the messages of earlier bursts, too."""

    PREAMBLE = 0
    RECEIVER = 1
    FORGET = 2
    SENDER = 3
    MESSAGE = 4


class _PendingStream:
    __slots__ = ("end", "parts", "rank", "urgent")

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.parts: list[bytes] = []
        self.end = False
        self.urgent = False


class Outbox:
    """Actions since the last ``take``. Streams are numbered in the order of ``open``."""

    def __init__(self, side: Side, prefix: Callable[[], bytes]) -> None:
        self._next_stream = first_stream(client=side is Side.CLIENT, bidirectional=False)
        self._prefix = prefix
        self._pending: dict[int, _PendingStream] = {}
        self._resets: dict[int, int] = {}
        self._datagrams: list[SendDatagram] = []
        self._next_token = 0
        self._consumed: dict[int, int] = {}
        self._live: set[int] = set()  # opened, neither ended nor reset
        self._admit = False
        self._close: CloseLink | None = None
        self.stream_limit: int | None = None
        """Streams that the peer lets us open in all; None: not known."""
        self.streams_at_once = 0
        """The same at a time, as far as the peer has shown it."""

    @property
    def streams_left(self) -> int | None:
        """Streams that may still be opened before the peer allows more; None: not known."""
        return None if self.stream_limit is None else self.stream_limit - self._next_stream // STEP

    def limit(self, streams: int) -> None:
        """The peer lets us open so many in all."""
        ended = self._next_stream // STEP - len(self._live) if self.streams_at_once else 0
        self.streams_at_once = max(self.streams_at_once, streams - ended)
        self.stream_limit = streams

    @property
    def all_taken(self) -> bool:
        """Each stream that the peer lets us have is held, so that none comes back by itself."""
        left = self.streams_left
        return left is not None and left <= 0 < self.streams_at_once <= len(self._live)

    def check_waiting(self, most: int) -> None:
        """Raises PeerFault where more streams of ours than that wait until the peer allows them."""
        left = self.streams_left
        if left is not None and -left > most:
            raise PeerFault(
                Code.RESOURCE_LIMIT,
                f"{-left} streams wait for this peer, which allows {self.stream_limit} in all",
            )

    def open(self, rank: Rank) -> int:
        """A new stream, whose sequence starts with VERSION while that is owed (AQ-VER-1)."""
        stream_id = self._next_stream
        self._next_stream += STEP
        pending = self._pending[stream_id] = _PendingStream(rank)
        self._live.add(stream_id)
        prefix = self._prefix()
        if prefix:
            pending.parts.append(prefix)
        return stream_id

    def write(
        self, stream_id: int, data: bytes, rank: Rank, *, end: bool = False, urgent: bool = False
    ) -> None:
        """Append to an open stream; nothing may follow ``end``. Dropped if it was reset, by us
        or because the peer stopped it. ``urgent``: as in `WriteStream`, with all of the burst."""
        if stream_id not in self._live:
            return
        pending = self._pending.get(stream_id)
        if pending is None:
            pending = self._pending[stream_id] = _PendingStream(rank)
        elif rank < pending.rank:
            pending.rank = rank
        if data:
            pending.parts.append(data)
        pending.urgent = pending.urgent or urgent
        if end:
            pending.end = True
            self._live.discard(stream_id)

    def extend(self, stream_id: int, data: bytes) -> bool:
        """Append to a stream of this burst that has its end already, and keeps it; False: it has
        left, or was reset."""
        pending = self._pending.get(stream_id)
        if pending is not None:
            pending.parts.append(data)
        return pending is not None

    def reset(self, stream_id: int, code: ResetCode) -> None:
        """Abandon a stream of ours, also one that has ended; what has not left is dropped."""
        self._pending.pop(stream_id, None)
        self._live.discard(stream_id)
        self._resets[stream_id] = code

    def stopped(self, stream_id: int) -> None:
        """The peer does not want this stream (AQ-SEND-15): reset it, later writes are dropped."""
        if stream_id % STEP == self._next_stream % STEP and stream_id < self._next_stream:
            self.reset(stream_id, ResetCode.NONE)

    def datagram(self, data: bytes) -> int:
        """Queue one datagram; the token that a refusal will name."""
        token = self._next_token
        self._next_token += 1
        self._datagrams.append(SendDatagram(data, token))
        return token

    def prefixed(self, sequence: bytes) -> bytes:
        """``sequence`` as it must begin now (AQ-VER-1)."""
        return self._prefix() + sequence

    def consumed(self, stream_id: int, count: int) -> None:
        if count:
            self._consumed[stream_id] = self._consumed.get(stream_id, 0) + count

    def admit(self) -> None:
        """The peer is no stranger any more."""
        self._admit = True

    def close(self, code: int, reason: str, *, drop: bool) -> None:
        """End the link; with ``drop`` nothing else leaves any more (AQ-ERR-1)."""
        if drop:
            self.abandon()
        self._close = CloseLink(code, reason)

    def abandon(self) -> None:
        """Drop everything that has not left: the link is gone, or is to end."""
        self._pending.clear()
        self._resets.clear()
        self._datagrams.clear()
        self._consumed.clear()
        self._close = None

    def take(self) -> list[Action]:
        actions: list[Action] = []
        if self._admit:
            actions.append(Admit())
            self._admit = False
        if self._pending:
            for stream_id, pending in sorted(self._pending.items(), key=lambda item: item[1].rank):
                parts = pending.parts
                data = parts[0] if len(parts) == 1 else b"".join(parts)
                urgent = pending.urgent or pending.rank <= Rank.FORGET
                actions.append(WriteStream(stream_id, data, pending.end, urgent))
            self._pending = {}
        if self._resets:
            actions.extend(ResetStream(*item) for item in self._resets.items())
            self._resets = {}
        if self._datagrams:
            actions.extend(self._datagrams)
            self._datagrams = []
        if self._consumed:
            actions.extend(Consumed(*item) for item in self._consumed.items())
            self._consumed = {}
        if self._close is not None:
            actions.append(self._close)
            self._close = None
        return actions
