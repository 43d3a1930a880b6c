"""What an application learns from an Aqueduct connection.

Messages come in batches: consecutive messages of one channel as columns, so that an intake turns
them into Arrow arrays without one object per message. ``messages()`` expands one lazily.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.engine.close_codes import CloseOrigin

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
"""Header data: a multimap in wire order (AQ-HDRDATA-1)."""


class ReceivedHeaders(tuple[tuple[bytes, bytes], ...]):
    """Header data that came from a peer, whose keys may be any bytes: who passes a message on may
    send it as it is, though our own keys are plain (AQ-HDRDATA-3)."""

    __slots__ = ()


def keys(headers: Headers) -> str:
    """Header data for logs: values may be secrets, so only the keys are shown."""
    return repr([key for key, _ in headers])


class Attachment(NamedTuple):
    """A channel that travelled inside a message; ``channel`` is its chanid (AQ-CHANID-1)."""

    channel: int
    headers: Headers

    def __repr__(self) -> str:
        return f"Attachment(channel={self.channel}, headers={keys(self.headers)})"


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
    """The peer's connection headers are here. A server answers with ``Connection.accept``."""

    headers: Headers

    def __repr__(self) -> str:
        return f"Opened(headers={keys(self.headers)})"


class Single(NamedTuple):
    """One message of a run."""

    number: int
    payload: bytes
    headers: Headers
    attachments: tuple[Attachment, ...]

    def __repr__(self) -> str:
        return (
            f"Single(number={self.number}, payload=<{len(self.payload)} bytes>, "
            f"headers={keys(self.headers)}, attachments={self.attachments})"
        )


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Consecutive messages of one channel, as columns.

    Message ``first + i`` has the payload ``payload[offsets[i]:offsets[i + 1]]``; ``offsets`` has
    ``count + 1`` entries of int64 and starts at 0. ``headers`` and ``attachments`` are keyed by
    ``i`` and hold only the messages that have any. ``size`` is the bytes of the MESSAGE frames on
    the wire, tag to end of payload (AQ-FLOW-3): hand it to ``Connection.consumed`` when done.
    """

    channel: int
    reliable: bool
    first: int
    count: int
    payload: bytes = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)
    size: int
    headers: Mapping[int, Headers] = field(default_factory=dict, repr=False)
    attachments: Mapping[int, tuple[Attachment, ...]] = field(default_factory=dict)

    def messages(self) -> Iterator[Single]:
        ends = self.offsets.tolist()
        for i in range(self.count):
            yield Single(
                self.first + i,
                self.payload[ends[i] : ends[i + 1]],
                self.headers.get(i, ()),
                self.attachments.get(i, ()),
            )


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

    ``attached`` are the channels that the message carries; one that carries any is told alone.
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
    """Nothing happened on the channel for ``channel_idle_timeout``; told once until something
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
    ``Connection.confirm``."""

    channel: int
    counts: Counts


class Ended(NamedTuple):
    """A half of a channel ended; the last events of it. Runs that came before stay valid,
    except that after CANCELLED the application drops what it has not used (AQ-LIFE-14)."""

    channel: int
    end: End
    counts: Counts


class DatagramsUnavailable(NamedTuple):
    """The peer takes no datagrams: unreliable sends use streams (AQ-HDR-9)."""


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
    | Closed
)
