"""What an application learns from an Aqueduct connection, beside the messages themselves.

Those come in batches (``aqueduct_core.engine.message_batch``): consecutive messages of one channel
as columns, so that an intake turns them into Arrow arrays without one object per message.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.message_batch import Headers, MessageBatch, loggable


class End(Enum):
    """How a half of a channel ended."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    CLOSED = "closed"
    LOST = "lost"
    OVERFLOW = "overflow"
    """We closed the receiver: the application let more pile up than a limit allows."""
    CONNECTION_LOST = "connection lost"


class Opened(NamedTuple):
    """The peer's connection headers are here. A server answers with ``AqueductEngine.accept``."""

    headers: Headers

    def __repr__(self) -> str:
        return f"Opened(headers={loggable(self.headers)})"


class Delivered(NamedTuple):
    """For a sender: messages ``first`` to ``stop`` (exclusive) of one number space were acked,
    or nacked."""

    channel: int
    reliable: bool
    first: int
    stop: int
    acked: bool


class Rerouted(NamedTuple):
    """For a sender: the transport refused datagram message ``datagram`` as too large, so it went
    on a stream as reliable message ``reliable``; the datagram number is given again (AQ-SEND-5)."""

    channel: int
    datagram: int
    reliable: int


class Numbered(NamedTuple):
    """For a sender: the oldest messages of its queue left, as ``first`` to ``stop`` (exclusive).

    ``attached`` are the channels that the message carries; one that does has
    an event of its own.
    """

    channel: int
    reliable: bool
    first: int
    stop: int
    attached: tuple[int, ...] = ()


class Dropped(NamedTuple):
    """For a sender: the oldest ``messages`` of its queue were dropped, without a number;
    the channels that they were to carry are lost (AQ-SEND-12)."""

    channel: int
    messages: int


class Writable(NamedTuple):
    """For a sender: a message that was refused with ``QueueFull``, the rest of ``send_many``, or
    one that was held back because of ``congested``, may be tried again."""

    channel: int


class Idle(NamedTuple):
    """Nothing happened on the channel for ``channel_idle_timeout``; comes once until something
    does. The peer may have reset a stream, or stalled; the application may close (H27, H28)."""

    channel: int


class Ignored(NamedTuple):
    """Something that the peer sent counts as absent, as the rule says; for a log."""

    reason: str


class Nacked(NamedTuple):
    """For a receiver: we nacked the unreliable numbers ``first`` to ``stop`` (exclusive)."""

    channel: int
    first: int
    stop: int


class Counts(NamedTuple):
    """Totals of one half of a channel, as far as this side knows them. ``acked`` counts both number
    spaces, ``unreliable_acked`` datagram messages alone."""

    reliable_sent: int = 0
    reliable_received: int = 0
    unreliable_sent: int = 0
    acked: int = 0
    nacked: int = 0
    late: int = 0
    unreliable_acked: int = 0


class Complete(NamedTuple):
    """For a receiver, with ``confirm_finish``: FINISH_SENDER came, every message is here or nacked,
    and the counts are final. The half ends FINISHED when all is stored, and after
    ``AqueductEngine.confirm``."""

    channel: int
    counts: Counts


class Ended(NamedTuple):
    """A half of a channel ended; the last events of it. Batches that came before stay valid,
    except that after CANCELLED the application drops what it has not used (AQ-LIFE-14)."""

    channel: int
    end: End
    counts: Counts


class DatagramsUnavailable(NamedTuple):
    """The peer takes no datagrams: unreliable sends use streams (AQ-HDR-9)."""


class StreamsTaken(NamedTuple):
    """Messages, or frames of control, wait for a stream, and channels of ours hold all ``streams``
    that the peer lets us have: they wait until one of those channels ends. For a log; comes once
    until the peer allows another stream."""

    streams: int

    def __str__(self) -> str:
        return (
            f"the peer lets this side have {self.streams} streams, and channels hold all of them: "
            "what needs one more waits until a channel ends"
        )


class Closed(NamedTuple):
    """The connection is over; the last events. ``code`` 0 of the application: in good order
    (AQ-LIFE-24). Of another ``origin`` the connection was lost, and the code is none of ours."""

    code: int
    reason: str
    by_peer: bool
    origin: CloseOrigin = CloseOrigin.APPLICATION


Event: TypeAlias = (
    Opened
    | MessageBatch
    | Delivered
    | Rerouted
    | Numbered
    | Dropped
    | Writable
    | Nacked
    | Idle
    | Ignored
    | Complete
    | Ended
    | DatagramsUnavailable
    | StreamsTaken
    | Closed
)
