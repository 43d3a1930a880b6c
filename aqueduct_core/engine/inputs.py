"""What a driver tells a protocol engine: one immutable value for each burst of a stream, datagram
or change of the link. ``aqueduct_core.engine.engine`` says in which order they come."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple, TypeAlias

from aqueduct_core.engine.close_codes import CloseOrigin


class StreamBytes(NamedTuple):
    """The next bytes of a stream, in order and without gaps; ``end`` is the peer's FIN.

    They come on unidirectional streams of the peer and on bidirectional ones of either side; the
    number says which (``aqueduct_core.engine.streams``).
    """

    stream_id: int
    data: bytes
    end: bool


class StreamReset(NamedTuple):
    """The peer abandoned what it sent on a stream; bytes that were not handed over yet are gone."""

    stream_id: int
    code: int


class StreamStopped(NamedTuple):
    """The peer asks (STOP_SENDING) that we end what we send on a stream."""

    stream_id: int
    code: int


class Datagram(NamedTuple):
    """One unreliable datagram (RFC 9221), whole."""

    data: bytes


class DatagramFate(Enum):
    """What became of a datagram, as the link says it."""

    REFUSED = "refused"
    """The transport cannot carry it (too large); it was not sent."""
    LEFT = "left"
    """It has left for the network, and so have those of all actions before it but for refused ones:
    datagrams leave in the order of their actions. Only links that tell ``LinkRoom`` tell this; with
    another link an engine takes a datagram as gone when its action was taken."""
    ACKED = "acked"
    """The peer's transport has it. Its engine may not have it yet, or ever, so this is no answer of
    a protocol."""
    LOST = "lost"
    """The transport takes it, which has left, for lost. It may have been wrong in that, and does
    not repeat it."""


class DatagramOutcome(NamedTuple):
    """What became of the datagram of action ``token``.

    ACKED and LOST come only from a link that says so in ``LinkReady``: it tells one or the other of
    every datagram that has left, unless it is lost first.
    """

    token: int
    outcome: DatagramFate


class StreamLeft(NamedTuple):
    """The first ``total`` bytes of what was written on a stream have left for the network. What is
    repeated does not leave again, and what waits for the peer's credit has not left.

    Only links that say so in ``LinkReady`` tell this, of streams of both kinds, at most once a turn
    and only where it has grown; not of bytes that were given up by a reset.
    """

    stream_id: int
    total: int


class LinkRoom(NamedTuple):
    """The link wants to hold at most ``size`` bytes of datagrams and of streams that have not left:
    about what the path carries in a round trip. Told before the first datagram can be sent, and
    again when it has changed much.

    What an engine hands over beyond that waits in the link, where nothing can be given up or
    overtaken any more. A single datagram may always go where none waits.
    """

    size: int


class LinkReady(NamedTuple):
    """The handshake of the link is complete.

    ``max_datagram_size`` is the largest datagram payload in bytes that fits a packet towards
    this peer; 0 where the peer takes no datagrams. ``DatagramLimit`` tells of changes.
    ``datagram_outcomes``: the link tells what becomes of each datagram. ``stream_progress``: it
    tells how much has left of what was written on streams (``StreamLeft``), from the first byte on.
    """

    max_datagram_size: int
    datagram_outcomes: bool = False
    stream_progress: bool = False


class DatagramLimit(NamedTuple):
    """The largest datagram payload that fits a packet is another now: the path was found to carry
    more, or to carry less than before.

    Where it is less, it comes before the ``DatagramOutcome`` REFUSED of what has not left and is
    too large now.
    """

    max_datagram_size: int


class EarlyReady(NamedTuple):
    """A client may write although the TLS handshake is not complete (0-RTT, RFC 9001 §4.6).

    Comes before ``LinkReady``, if at all. The server may reject what is written until then:
    see ``EarlyRejected``. ``max_datagram_size`` is what it was on the last connection.
    """

    max_datagram_size: int


class EarlyRejected(NamedTuple):
    """The server did not take what was written since ``EarlyReady``; ``LinkReady`` follows.

    The link has kept all bytes of streams and writes them once more, in order, on new streams. It
    gives those the numbers of the old ones, as QUIC begins to count anew (RFC 9001 §4.6.2), so
    what an engine holds of its streams goes on to be right. Datagrams are lost.
    ``streams`` is how many are written again.
    """

    streams: int


class LinkRtt(NamedTuple):
    """The smoothed round-trip time changed much; a hint for delays, which need not come."""

    seconds: float


class StreamLimit(NamedTuple):
    """The peer lets us open so many streams of a kind in all (RFC 9000 §4.6); never less than
    before. An engine that opens more has them wait in the link, in the order of opening."""

    streams: int
    bidirectional: bool = False


class LinkLost(NamedTuple):
    """The link is gone: closed by either side, or silent past its idle timeout. The last input.

    What ``code`` means is for ``origin`` to say: only those of the application are an engine's.
    """

    code: int
    reason: str
    by_peer: bool
    origin: CloseOrigin = CloseOrigin.APPLICATION


Input: TypeAlias = (
    StreamBytes
    | StreamReset
    | StreamStopped
    | Datagram
    | DatagramLimit
    | DatagramOutcome
    | EarlyReady
    | EarlyRejected
    | LinkReady
    | LinkRoom
    | LinkRtt
    | StreamLeft
    | StreamLimit
    | LinkLost
)
