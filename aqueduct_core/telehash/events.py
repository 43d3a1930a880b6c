"""What an engine of Telehash tells its application.

``channel`` is the number on the wire, which is of one channel of the line alone. All events of a
channel come between its beginning, `ChannelOpened` or `TelehashEngine.open`, and `ChannelClosed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.telehash.faults import PacketFault


class LineReady(NamedTuple):
    """The handshake of the link is complete: it is known what fits a packet."""


class ChannelOpened(NamedTuple):
    """By the peer (P4, T1). One of a type that is not wanted: `TelehashEngine.fail` (T2)."""

    channel: int
    type: str
    reliable: bool


@dataclass(frozen=True, slots=True)
class PacketBatch(MessageBatch):
    """Consecutive packets of one channel, the bodies as payloads, in order and each once where it
    is reliable. Unreliable ones are numbered from 0 as they come.

    ``js`` of each: compact JSON in UTF-8; what is under ``_``, or an object of the keys that the
    protocol has no meaning for, or None (P4). ``end``: the last one ends what the peer sends (P5).
    """

    js: Sequence[bytes | None] = field(default=(), repr=False)
    end: bool = False


class PacketsAcked(NamedTuple):
    """All our packets below ``upto`` were processed by the peer's application (T9)."""

    channel: int
    upto: int


class ChannelWritable(NamedTuple):
    """`TelehashEngine.room` was 0, and is not any more."""

    channel: int


class PacketsDropped(NamedTuple):
    """So many packets of the peer were dropped in one turn for one reason. ``channel``: of all of
    them; None: of several, or of none that could be read."""

    fault: PacketFault
    count: int  # type: ignore[assignment]  # tuple.count is never wanted here
    channel: int | None


class CloseReason(Enum):
    """Why a channel is over."""

    PEER_ENDED = "ended by the peer"
    """Its end was processed, and it has acked what we sent, or was given the time to (P5, T17)."""
    ENDED = "ended"
    """Our end was acked (T17); of an unreliable channel: was sent."""
    FAILED = "failed"
    """By an ``err`` of either side (P6, T19)."""
    TIMED_OUT = "timed out"
    """The peer has acked nothing for too long (T16)."""
    LOST = "lost"
    """The line is over."""


class ChannelClosed(NamedTuple):
    """The last event of a channel. ``unacked``: packets of ours that the peer has not acked."""

    channel: int
    reason: CloseReason
    err: str | None = None
    by_peer: bool = False
    unacked: int = 0


TelehashEvent: TypeAlias = (
    LineReady
    | ChannelOpened
    | PacketBatch
    | PacketsAcked
    | ChannelWritable
    | PacketsDropped
    | ChannelClosed
    | LinkLost
)
