"""Version handshake and connection headers (AQ-VER-1…7, AQ-HDR-1…5).

Two independent inputs a direction: *we owe VERSION in front of each sequence* until the peer's
ACK_VERSION is processed, and *the peer owes VERSION* until we sent ours; *headers known* opens
the gate for routed frames. What is due leaves in one stream: ``[V] 02 headers 01`` (B6).
"""

from __future__ import annotations

from aqueduct_core.aqueduct.faults import Code, NotAllowed, PeerFault
from aqueduct_core.aqueduct.outbox import Outbox, Rank
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.aqueduct.wire.chanid import Side
from aqueduct_core.aqueduct.wire.frames import AckVersion, ConnectionHeaders, Preamble, Version
from aqueduct_core.engine.message_batch import Headers

PAIR_BYTES = 150
"""The objects of a header, beside its bytes."""


class Handshake:
    """Ends when both sides' headers and ACK_VERSIONs went over; some of it may never."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._owe_version = True
        self._version_sent = False
        self._ack_due = False
        self._ack_sent = False
        self._headers_due: Headers | None = None
        self._headers_given = False
        self.peer_headers: Headers | None = None
        self.size = 0
        """Memory of the peer's headers, about."""

    @property
    def version_required(self) -> bool:
        return not self._ack_sent

    @property
    def headers_known(self) -> bool:
        """The gate for routed frames is open (AQ-HDR-4).

        At a server the application's answer opens it, so that it can refuse a client before any
        channel state is made.
        """
        if self.peer_headers is None:
            return False
        return self._side is Side.CLIENT or self._headers_given

    @property
    def due(self) -> bool:
        return self._ack_due or self._headers_due is not None

    def prefix(self) -> bytes:
        """How a sequence that starts now begins."""
        if not self._owe_version:
            return b""
        self._version_sent = True
        return codec.VERSION

    def offer(self, headers: Headers) -> None:
        """Give our connection headers, once (AQ-HDR-3).

        Raises:
            NotAllowed: a second time, or at a server before the client's came (AQ-HDR-2).
        """
        if self._headers_given:
            raise NotAllowed("connection headers are given once")
        if self._side is Side.SERVER and self.peer_headers is None:
            raise NotAllowed("a server gives its headers after it got the client's")
        self._headers_given = True
        self._headers_due = headers

    def receive(self, frame: Preamble) -> bool:
        """Take in a frame of a preamble; whether the peer's headers became known by it."""
        if isinstance(frame, Version):
            if not self._ack_sent:
                # counts as sent from here on: it leaves with the next actions, before any answer
                self._ack_sent = self._ack_due = True
            return False
        if isinstance(frame, AckVersion):
            if not self._version_sent:
                raise PeerFault(Code.PROTOCOL, "ACK_VERSION before any VERSION of ours")
            self._owe_version = False
            return False
        return self._headers(frame)

    def _headers(self, frame: ConnectionHeaders) -> bool:
        if self.peer_headers is not None:
            raise PeerFault(Code.HEADERS, "connection headers came twice")
        self.peer_headers = frame.headers
        self.size = codec.headers_size(frame.headers) + PAIR_BYTES * len(frame.headers)
        return True

    def flush(self, outbox: Outbox) -> None:
        """Put what is due on one stream, headers first (B6)."""
        if not self.due:
            return
        out = b""
        if self._headers_due is not None:
            out = codec.encode_connection_headers(self._headers_due)
            self._headers_due = None
        if self._ack_due:
            out += codec.ACK_VERSION
            self._ack_due = False
        outbox.write(outbox.open(Rank.PREAMBLE), out, Rank.PREAMBLE, end=True)
