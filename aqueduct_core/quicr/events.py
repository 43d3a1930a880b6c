"""What an engine of QUICR tells its application.

``stream`` is the number of the control stream, which names a transaction on its connection: the
transfer of one media in one direction, or a subscription. All but the three that begin one are of
transactions that are there; `TransactionEnded` is the last of each.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from aqueduct_core.engine.inputs import LinkLost
from aqueduct_core.quicr.media.fragment import Fragment
from aqueduct_core.quicr.media.position import Position


class Ready(NamedTuple):
    """The handshake is complete."""


class StreamRoom(NamedTuple):
    """`QuicrEngine.stream_room` was none, and there is some now."""


class Requested(NamedTuple):
    """The peer wants a media (Q8, Q9): `QuicrEngine.serve` it when there is one, however late."""

    stream: int
    url: bytes
    datagram: bool


class Posted(NamedTuple):
    """The peer wants to send a media (Q17): `QuicrEngine.accept` it, or `cancel`."""

    stream: int
    url: bytes
    datagram: bool


class Subscribed(NamedTuple):
    """The peer wants to hear of URLs with this prefix (Q22): `QuicrEngine.notify`."""

    stream: int
    prefix: bytes


class PostAccepted(NamedTuple):
    """Our POST is taken (Q17): as datagrams, or on the stream."""

    stream: int
    datagram: bool


class Notified(NamedTuple):
    """There is a media under this URL. The same one may be told more than once (Q25)."""

    stream: int
    url: bytes


class StartPoint(NamedTuple):
    """The first object of a media; may come behind all of its objects (Q15)."""

    stream: int
    start: Position


class Fragments(NamedTuple):
    """What came of a media in one turn, never empty: on a stream in media order without a hole
    between them, of datagrams as they came, with repeats.

    ``size``: bytes of the wire; hand them to `QuicrEngine.consumed` when done (0 of datagrams).
    """

    stream: int
    fragments: list[Fragment]
    size: int


class FinalPoint(NamedTuple):
    """Behind the last object of a media. Datagrams may still be under way (Q9).

    ``sure``: its sender said so; otherwise its stream has just ended, behind the last whole object.
    When all up to there is here, and stored where it has to be: `QuicrEngine.confirm`.
    """

    stream: int
    final: Position
    sure: bool = True


class ObjectsDropped(NamedTuple):
    """Objects that we gave up towards this peer for want of room; it gets holes in their place."""

    stream: int
    positions: list[Position]


class SentOut(NamedTuple):
    """All of a media is out, with its final point behind it: of datagrams, acknowledged by the
    peer's transport; of a stream, written. What is left is the peer's end (Q18)."""

    stream: int


class Pressure(NamedTuple):
    """How the way to this peer does, when that has changed: for a publisher that can send less.

    ``level``: objects of drop priority ``level`` and above are given up; None: none are.
    ``delay``: seconds that the oldest fragment waits; ``queued``: media that have one waiting.
    """

    level: int | None
    delay: float
    queued: int


class EndReason(Enum):
    """Why a transaction is over."""

    COMPLETE = "complete"
    """Both sides have ended it, behind the final point; of what we sent: the peer has it all."""
    CANCELLED = "cancelled"
    """Before its final point: by the peer, where ``by_peer`` says so."""
    TOO_LARGE = "too large"
    """An object of what comes has more bytes than we take (`QuicrConfig.max_object`): we have ended
    it. It would end so again."""
    LOST = "lost"
    """The connection is over."""


class TransactionEnded(NamedTuple):
    """``object``: the one that was too large."""

    stream: int
    reason: EndReason
    by_peer: bool = False
    object: Position | None = None


QuicrEvent: TypeAlias = (
    Ready
    | StreamRoom
    | Requested
    | Posted
    | Subscribed
    | PostAccepted
    | Notified
    | StartPoint
    | Fragments
    | FinalPoint
    | ObjectsDropped
    | SentOut
    | Pressure
    | TransactionEnded
    | LinkLost
)
