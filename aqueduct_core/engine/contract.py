"""The contract between a protocol engine and whatever drives it (sans-IO, five verbs).

An engine holds no socket, no clock and no event loop. Its driver

1. feeds everything that has arrived: ``handle(input, now)``, one call a input;
2. only then fires the timer: ``tick(now)`` when ``wake_at`` is due (a late timer must not beat
   data that is already here);
3. carries out ``actions()`` in order;
4. hands ``events()`` to the application.

Commands of the application (open, send, finish …) are methods of each engine; after one, the
driver runs steps 3 and 4 again. ``now`` is a monotonic time in seconds and never goes back.
Inputs and actions are immutable tuples: one for each burst and stream, not for each message.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from aqueduct_core.engine.close_codes import CloseOrigin


class StreamBytes(NamedTuple):
    """The next bytes of a stream of the peer, in order and without gaps; ``end`` is its FIN."""

    stream_id: int
    data: bytes
    end: bool


class StreamReset(NamedTuple):
    """The peer abandoned a stream of its own; bytes that were not handed over yet are gone."""

    stream_id: int
    code: int


class StreamStopped(NamedTuple):
    """The peer asks (STOP_SENDING) that we end one of our streams."""

    stream_id: int
    code: int


class Datagram(NamedTuple):
    """One unreliable datagram (RFC 9221), whole."""

    data: bytes


class DatagramRefused(NamedTuple):
    """The transport cannot carry the datagram of action ``token`` (too large); it was not sent."""

    token: int


class DatagramsSent(NamedTuple):
    """The datagrams of all actions up to ``token`` have left for the network, but for refused ones.

    Datagrams leave in the order of their actions. Only links that tell ``LinkRoom`` tell this;
    with another link an engine takes a datagram as gone when its order was taken.
    """

    token: int


class DatagramDelivered(NamedTuple):
    """The peer's transport has the datagram of action ``token``. Its engine may not have it yet, or
    ever, so this is no answer of a protocol. Only from a link that says so in ``LinkReady``."""

    token: int


class DatagramLost(NamedTuple):
    """The transport takes the datagram of action ``token``, which has left, for lost. It may have
    been wrong in that, and does not repeat it. Only from a link that says so in ``LinkReady``;
    such a link tells one or the other of every datagram that has left, unless it is lost first."""

    token: int


class LinkRoom(NamedTuple):
    """The link wants to hold at most ``size`` bytes of datagrams that have not left: about what
    the path carries in a round trip. Told before the first datagram can be sent, and again when
    it has changed much.

    What an engine hands over beyond that waits in the link, where nothing can be given up or
    overtaken any more. A single datagram may always go where none waits.
    """

    size: int


class LinkReady(NamedTuple):
    """The TLS handshake is complete.

    ``max_datagram_size`` is the largest datagram payload in bytes that fits a packet towards
    this peer; 0 where the peer takes no datagrams.
    ``datagram_outcomes``: the link tells what becomes of each datagram.
    """

    max_datagram_size: int
    datagram_outcomes: bool = False


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
    """The peer lets us open so many unidirectional streams in all (RFC 9000 §4.6); never less
    than before. An engine that opens more has them wait in the link, in the order of opening."""

    streams: int


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
    | DatagramDelivered
    | DatagramLost
    | DatagramRefused
    | DatagramsSent
    | EarlyReady
    | EarlyRejected
    | LinkReady
    | LinkRoom
    | LinkRtt
    | StreamLimit
    | LinkLost
)


class WriteStream(NamedTuple):
    """Append bytes to a unidirectional stream of ours; the first write opens it.

    Engines number their own streams in the order in which they open them:
    client 2, 6, 10 …, server 3, 7, 11 … (RFC 9000 §2.1).
    """

    stream_id: int
    data: bytes
    end: bool


class ResetStream(NamedTuple):
    stream_id: int
    code: int


class StopStream(NamedTuple):
    stream_id: int
    code: int


class SendDatagram(NamedTuple):
    """``token`` names the datagram in later inputs; it rises from order to order."""

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
    """Close the QUIC connection with an application error code. The last order."""

    code: int
    reason: str


Action: TypeAlias = (
    WriteStream | ResetStream | StopStream | SendDatagram | Consumed | Admit | CloseLink
)


class Footprint(NamedTuple):
    """Memory that a peer makes this side hold: bytes, about, with the overhead of objects.

    ``waiting`` of the ``size`` are messages that the application is not done with: for these the
    peer waits for us, and has no more of them where it is given less credit. All else is its own
    making.
    """

    size: int
    waiting: int = 0


EventT = TypeVar("EventT")


class Engine(Protocol, Generic[EventT]):
    """What every protocol engine offers its driver."""

    def handle(self, input: Input, now: float) -> None:
        """Take in one input. Never raises for anything that a peer sent."""

    def tick(self, now: float) -> None:
        """Act on every deadline that is due at ``now``."""

    @property
    def wake_at(self) -> float | None:
        """When ``tick`` is wanted next; None: never, unless something happens."""

    @property
    def footprint(self) -> Footprint:
        """What the engine holds now for its peer. Asked often, so it comes from counters."""

    def actions(self) -> list[Action]:
        """Take what the transport has to do since the last call."""

    def events(self) -> list[EventT]:
        """Take what the application should learn since the last call."""
