"""Who is at fault: the peer (``PeerFault``, closes the connection) or the caller (``LocalError``).

LocalError
├── ConnectionOver   the connection was closed or lost
├── ChannelGone      no such half here, or it has ended
├── NotAllowed       the half's state, mode or side forbids it
├── BadArgument      a header key, a number …
├── TooLarge         over a limit of this side
└── TooMany          a table of this side is full; try again when some of it was acked
    └── QueueFull    the channel's send queue is full; try again after ``Writable``
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Application error codes of the QUIC connection (AQ-ERR-2)."""

    NO_ERROR = 0
    PROTOCOL = 1
    ENCODING = 2
    VERSION = 3
    HEADERS = 4
    CONTEXT = 5
    STATE = 6
    ACK = 7
    RESOURCE_LIMIT = 8
    DATAGRAM = 9
    INTERNAL = 10


class ResetCode(IntEnum):
    """Why a stream of ours was abandoned; peers ignore it (AQ-ERR-2)."""

    NONE = 0
    CANCELLED = 1
    LOST = 2


class PeerFault(Exception):
    """The peer broke a rule: the connection closes with ``code``. Never leaves the engine."""

    def __init__(self, code: Code, reason: str) -> None:
        self.code = code
        self.reason = reason


class LocalError(Exception):
    """The caller asked for what the engine cannot do; nothing has changed."""


class ConnectionOver(LocalError):
    pass


class ChannelGone(LocalError):
    pass


class NotAllowed(LocalError):
    pass


class BadArgument(LocalError, ValueError):
    pass


class TooLarge(LocalError):
    pass


class TooMany(LocalError):
    pass


class QueueFull(TooMany):
    pass
