"""What a protocol engine wants of its link: immutable values, carried out in their order."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from aqueduct_core.engine.close_codes import CloseOrigin


class WriteStream(NamedTuple):
    """Append bytes to a stream that we may write; the first write opens one of ours.

    Engines number their own streams, those of each kind in the order in which they open them
    (``aqueduct_core.engine.streams``).

    ``urgent``: it leaves ahead of what other streams have to send, as the peer can do nothing with
    that before it has this, and holds the credit for it meanwhile.
    """

    stream_id: int
    data: bytes
    end: bool
    urgent: bool = False


class ResetStream(NamedTuple):
    """Abandon what we send on a stream."""

    stream_id: int
    code: int


class StopStream(NamedTuple):
    """Take no more of what the peer sends on a stream."""

    stream_id: int
    code: int


class SendDatagram(NamedTuple):
    """``token`` names the datagram in later inputs; it rises from action to action."""

    data: bytes
    token: int


class Consumed(NamedTuple):
    """The application is done with ``count`` bytes of a stream: credit may go to the peer.

    Flow control of the transport follows these actions and nothing else, so bytes that nobody
    consumes bound what a peer can make us hold. ``stream_id`` may name a stream that has ended;
    then only the connection's credit grows.
    """

    stream_id: int
    count: int  # type: ignore[assignment]  # tuple.count is never wanted here


class Admit(NamedTuple):
    """The peer has shown what it has to show, a token for instance. Until then it is a stranger: it
    has few streams, and gives way to others where there is no room. For the side that listens."""


class CloseLink(NamedTuple):
    """Close the link with a code of the application, or of the transport. The last action.

    A peer that gets a code of the transport may take it for the network's fault and come again.
    """

    code: int
    reason: str
    origin: CloseOrigin = CloseOrigin.APPLICATION


Action: TypeAlias = (
    WriteStream | ResetStream | StopStream | SendDatagram | Consumed | Admit | CloseLink
)
