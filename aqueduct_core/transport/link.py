"""What a transport offers for one connection: a synchronous port, no socket, no clock.

A *link* is one connection; a *stack* (aioquic) makes those of QUIC. The driver calls, for each
burst of datagrams that it read,

1. ``receive`` with the whole burst;
2. ``inputs`` and hands them to the engine, all of them;
3. ``fire`` when ``timer`` is due, and ``inputs`` again;
4. ``apply`` with the actions of the engine;
5. ``transmit``, and sends what it returns; then ``inputs`` of what has left, and 4. and 5. again
   if the engine has actions by that and the link is not ``backlogged``.

``now`` is a monotonic time in seconds and never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol, TypeAlias

from aqueduct_core.engine.actions import Action
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import Input, LinkLost
from aqueduct_core.transport.sessions import SessionTable, TlsSession
from aqueduct_core.transport.settings import LinkSettings
from aqueduct_core.transport.tls.credentials import ClientTls, ServerIdentity

Address: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
"""A socket address as the operating system gives it: IPv4 pair or IPv6 quadruple."""

CONNECTION_ID_LENGTH = 8
"""Bytes of the connection ids that we choose; a short header carries no length (RFC 9000 §17.3)."""
LONG_HEADER = 0x80
"""The bit of a packet's first byte that tells it from one of a connection that is established."""


def destination_of(datagram: bytes) -> bytes:
    """The connection id that a datagram is for."""
    if datagram and datagram[0] & LONG_HEADER:
        return datagram[6 : 6 + (datagram[5] if len(datagram) > 5 else 0)]
    return datagram[1 : 1 + CONNECTION_ID_LENGTH]


@dataclass(slots=True)
class LinkCounts:
    """Totals of one link since it was made."""

    datagrams_received: int = 0
    datagrams_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    datagram_frames_refused: int = 0
    early_datagrams_dropped: int = 0
    datagrams_held_back: int = 0


@dataclass(slots=True)
class ListenCounts:
    """Totals since the listener was opened.

    ``overrun``: datagrams dropped, because a connection or strangers sent more than there was time
    for. ``gave_way``: handshakes that were given up for others.
    """

    accepted: int = 0
    ready: int = 0
    garbage: int = 0
    refused: int = 0
    unknown_version: int = 0
    overrun: int = 0
    gave_way: int = 0
    retried: int = 0
    tokens_refused: int = 0
    resets: int = 0


class CertificateFault(Enum):
    """Why a client does not trust the certificate of a server."""

    DATES = auto()
    """It, or one that it rests on, has expired or is not valid yet."""
    NAME = auto()
    """It is for another name."""
    AUTHORITY = auto()
    """Nobody whom we trust has issued it."""


class Link(Protocol):
    """One connection.

    Ends when ``lost`` is set (no more inputs after that one); ``closed`` follows when the closing
    or draining period is over too, and the link may be forgotten.
    """

    counts: LinkCounts

    @property
    def timer(self) -> float | None:
        """When ``fire`` is wanted next; None once the link is closed."""

    @property
    def awaits(self) -> float | None:
        """When something is taken for lost that the peer has not acknowledged, as of the last
        ``timer``, which is no later; None: nothing is awaited, or silence is no sign of loss."""

    @property
    def unsent(self) -> int:
        """Bytes that ``apply`` took and the peer has not acknowledged, and queued datagrams."""

    @property
    def outgoing(self) -> int:
        """Memory of what waits for the peer to take or acknowledge it: ``unsent``, with streams."""

    @property
    def footprint(self) -> int:
        """Memory that the connection takes, about, in bytes; 0 once it is free. From counters."""

    @property
    def backlogged(self) -> bool:
        """The last ``transmit`` left datagrams behind for another time."""

    @property
    def round_trip(self) -> float | None:
        """The smoothed round-trip time in seconds; None before it was measured."""

    @property
    def alpn(self) -> str | None:
        """The protocol that both ends have agreed on; None before that, or where they need not."""

    @property
    def ready(self) -> bool:
        """The handshake is complete."""

    @property
    def admitted(self) -> bool:
        """The peer is not one of the strangers any more, who give way to others: the engine has
        said ``Admit``, or, where a peer can prove nothing, it has been heard of for a while."""

    @property
    def proved(self) -> bool:
        """The peer has shown that it receives at its address."""

    @property
    def early(self) -> bool:
        """Not ready yet, but actions may be given: their bytes leave as 0-RTT data."""

    @property
    def early_accepted(self) -> bool | None:
        """What became of 0-RTT data; None: there was none, or it is not decided yet."""

    @property
    def lost(self) -> LinkLost | None:
        """Why the link is gone, and by whose code; None while it is there."""

    @property
    def closed(self) -> bool:
        """Gone for good: nothing will be sent or received any more."""

    @property
    def alert(self) -> int | None:
        """The TLS alert that ended the handshake, if one did (RFC 9001 §4.8)."""

    @property
    def certificate_fault(self) -> CertificateFault | None:
        """What is wrong with the certificate of the peer, if that ended the handshake."""

    @property
    def peer_fingerprint(self) -> str | None:
        """SHA-256 of the peer's certificate as colon-separated hex; None if it showed none.

        Of a resumed session: the certificate that began it."""

    def receive(self, datagrams: Sequence[tuple[bytes, Address]], now: float) -> None:
        """Take in a burst. Never raises for anything that a peer sent."""

    def inputs(self) -> list[Input]:
        """Take what happened since the last call; consecutive bytes of a stream are joined.

        At a server there are none before ``ready``: what arrives earlier is held (AQ-0RTT-3)."""

    def apply(self, actions: Iterable[Action], now: float) -> None:
        """Carry out actions. Nothing is sent before ``transmit``."""

    def transmit(self, now: float) -> list[tuple[bytes, Address]]:
        """The datagrams to send now."""

    def fire(self, now: float) -> None:
        """Act on every deadline of the link that is due; without harm when none is."""

    def too_large(self, size: int, now: float) -> None:
        """The network interface does not take datagrams of that size; nor larger ones, then."""

    def probe(self) -> bool:
        """Ask the peer for a sign of life with the next ``transmit``; False: there is no way."""

    def close(self, code: int, reason: str, origin: CloseOrigin = CloseOrigin.APPLICATION) -> None:
        """Close with a code of the application, or of the transport, which is no fault of the
        application, so that the peer may come again; also before the handshake is complete."""

    def hold_back(self, on: bool) -> None:
        """While it is on, the peer gets no credit for more bytes of streams, and its datagrams are
        dropped, which is what may become of any."""

    def free(self) -> None:
        """It is over: be ``closed``, and hold nothing that a peer has sent or was to get."""

    def abandon(self, reason: str) -> None:
        """Lose the link without a word to the peer; it is not used any more after that."""

    def routes(self) -> tuple[list[bytes], list[bytes]]:
        """Take the connection ids that the link began and ceased to answer to."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The start of a connection, as much of its first datagram as a listener looks at."""

    destination: bytes
    source: bytes
    version: int
    token: bytes = b""


@dataclass(frozen=True, slots=True)
class Resumption:
    """What a dialled link starts from, and where it leaves what the server gives it.

    Attributes:
        session: of an earlier connection; None: a full handshake.
        early: write 0-RTT data, if the session allows it.
        token: proves our address; empty: none.
        keep_session, keep_token: called with what the server gives; None: sessions are not
            wanted, tokens are dropped.
    """

    session: TlsSession | None = None
    early: bool = False
    token: bytes = b""
    keep_session: Callable[[TlsSession], None] | None = None
    keep_token: Callable[[bytes], None] | None = None


@dataclass(frozen=True, slots=True)
class AcceptTerms:
    """On what terms a listener takes a connection.

    Attributes:
        original: the destination id of the client's very first Initial, where a Retry answered it.
        proved: the client's address is validated, so that no limit for strangers applies to it.
        token: for the client to keep, in a NEW_TOKEN; empty: none.
        sessions: where sessions are kept, those of each protocol apart; None: none are given or
            taken.
        early_data: 0-RTT data is taken; without it, it is refused by TLS.
        reset_token: makes the stateless reset token of each connection id that we issue; None:
            nobody can reset the connection.
    """

    original: bytes | None = None
    proved: bool = False
    token: bytes = b""
    sessions: SessionTable | None = None
    early_data: bool = False
    reset_token: Callable[[bytes], bytes] | None = None


class Stack(Protocol):
    """A QUIC library behind the port."""

    name: str

    def dial(
        self,
        alpn: str,
        settings: LinkSettings,
        tls: ClientTls,
        host: str,
        address: Address,
        now: float,
        resumption: Resumption | None = None,
    ) -> Link:
        """A client link; its first datagrams are ready for ``transmit``."""

    def hello(self, datagram: bytes) -> Hello | None:
        """The first packet of a datagram that may open a connection; None: not one of those."""

    def authentic(self, datagram: bytes, hello: Hello) -> bool:
        """Whether that first packet is one of QUIC, sealed with the keys that everybody can derive
        from its destination id. Costs a tenth of what ``accept`` and ``receive`` do."""

    def supports(self, version: int) -> bool:
        """Whether the stack speaks that version of QUIC."""

    def negotiation(self, hello: Hello) -> bytes:
        """The Version Negotiation packet that answers an unknown version."""

    def retry(self, hello: Hello, source: bytes, token: bytes) -> bytes:
        """The Retry packet that asks the sender of ``hello`` to come again with ``token``."""

    def refuse_token(self, hello: Hello) -> bytes:
        """The packet that ends a connection whose token is wrong, without keeping anything."""

    def accept(
        self,
        protocols: Mapping[str, LinkSettings],
        identity: ServerIdentity,
        hello: Hello,
        terms: AcceptTerms | None = None,
    ) -> Link:
        """A server link for ``hello``; hand it the same datagram by ``receive`` next.

        ``protocols`` are those that the client may choose from, by ALPN, and what each grants.
        """
