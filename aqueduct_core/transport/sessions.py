"""What both ends keep between two connections: sessions, and at a client address tokens.

A *session* (RFC 8446 §2.2) lets the next handshake go without certificates, and lets a client write
before it is complete (0-RTT). An *address token* (RFC 9000 §8.1.3) spares it a Retry. Both are used
once: a second use would link connections for an observer and invites replays.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from aqueduct_core.transport.tls.credentials import ClientTls

SERVERS = 256
"""Servers that ``MemorySessions`` remembers; the one used longest ago is forgotten first."""
PER_SERVER = 4
"""Sessions and tokens kept for each: what some connections at once can use."""
LARGEST = 4_096
"""Bytes of a token or a session; a server that gives larger ones gives them in vain."""


class ServerKey(NamedTuple):
    """Whose sessions these are. ``trust`` tells apart how the server was verified, so that a
    session made without verification is never used where one is asked for."""

    name: str
    port: int
    alpn: str
    trust: str


def server_key(tls: ClientTls, host: str, port: int, alpn: str) -> ServerKey:
    """The key of a server that is dialled as ``host`` and ``port``.

    Raises ``InvalidOption.BAD_VALUE`` when the CA file cannot be read.
    """
    if tls.insecure:
        trust = "insecure"
    else:
        file, pem = tls.authorities()
        trust = hashlib.sha256(pem).hexdigest() if pem is not None else f"file:{file}"
    return ServerKey(tls.server_name or host.partition("%")[0], port, alpn, trust)


@dataclass(frozen=True, slots=True)
class TlsSession:
    """What resumes one TLS session.

    Attributes:
        stack: the transport that wrote ``state`` and can read it.
        state: the ticket with its secrets, in a form of that transport.
        expires: seconds since the epoch; of no use afterwards.
        early_data: the server may take 0-RTT data with it.
        host: the address of the server that gave it; early data goes there only.
        fingerprint: of the certificate that the server showed, for a resumed handshake shows none.
        trusted_until: when that certificate expires, in seconds since the epoch.
    """

    stack: str
    state: bytes = field(repr=False)
    expires: float
    early_data: bool
    host: str
    fingerprint: str | None = None
    trusted_until: float | None = None

    def valid(self, at: float) -> bool:
        """Whether it may be used at ``at`` seconds since the epoch."""
        return at < self.expires and (self.trusted_until is None or at < self.trusted_until)


class SessionStore(Protocol):
    """Where sessions and tokens are kept. Bounded; may forget anything at any time.

    Called inside the event loop, so it must not wait for long. Nothing that it holds may be shown:
    who has a session can impersonate the client in it.
    """

    def keep_session(self, server: ServerKey, session: TlsSession) -> None:
        """Keep a session that the server gave."""

    def take_session(self, server: ServerKey, stack: str, at: float) -> TlsSession | None:
        """The newest session of ``stack`` that is valid at ``at``, once."""

    def keep_token(self, server: ServerKey, token: bytes) -> None:
        """Keep an address-validation token that the server gave."""

    def take_token(self, server: ServerKey) -> bytes:
        """The newest token, once; empty where there is none."""


@dataclass(slots=True)
class ServerSessions:
    """What is kept for one server, newest last."""

    sessions: deque[TlsSession] = field(default_factory=lambda: deque(maxlen=PER_SERVER))
    tokens: deque[bytes] = field(default_factory=lambda: deque(maxlen=PER_SERVER))


class MemorySessions:
    """A ``SessionStore`` in memory, bounded by ``SERVERS`` and ``PER_SERVER``; for any thread."""

    def __init__(self, servers: int = SERVERS) -> None:
        self._most = servers
        self._servers: OrderedDict[ServerKey, ServerSessions] = OrderedDict()
        self._lock = threading.Lock()

    def keep_session(self, server: ServerKey, session: TlsSession) -> None:
        if len(session.state) <= LARGEST:
            with self._lock:
                self._kept(server).sessions.append(session)
                self._changed()

    def take_session(self, server: ServerKey, stack: str, at: float) -> TlsSession | None:
        with self._lock:
            kept = self._servers.get(server)
            if kept is None:
                return None
            usable = [session for session in kept.sessions if session.valid(at)]
            fit = [i for i, session in enumerate(usable) if session.stack == stack]
            chosen = usable.pop(fit[-1]) if fit else None
            if len(usable) != len(kept.sessions):
                kept.sessions = deque(usable, PER_SERVER)
                self._changed()
            return chosen

    def keep_token(self, server: ServerKey, token: bytes) -> None:
        if 0 < len(token) <= LARGEST:
            with self._lock:
                self._kept(server).tokens.append(token)
                self._changed()

    def take_token(self, server: ServerKey) -> bytes:
        with self._lock:
            kept = self._servers.get(server)
            if kept is None or not kept.tokens:
                return b""
            token = kept.tokens.pop()
            self._changed()
            return token

    def _kept(self, server: ServerKey) -> ServerSessions:
        kept = self._servers.setdefault(server, ServerSessions())
        self._servers.move_to_end(server)
        while len(self._servers) > self._most:
            self._servers.popitem(last=False)
        return kept

    def _changed(self) -> None:
        """Called under the lock after each change."""


DEFAULT_TICKETS = MemorySessions()
"""Where a dial keeps them unless it is told otherwise: for the life of the process."""


class SessionTable:
    """Sessions by ticket, of whatever type the transport has for them. Holds at most ``most``.

    Those of each protocol are apart: what is written early for another one must not be taken
    (RFC 8446 §4.2.10). A session is taken out to be used, so none is resumed twice: a ClientHello
    that is replayed gets a full handshake, and its early data is rejected (RFC 8446 §8.1).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._sessions: OrderedDict[tuple[str, bytes], Any] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def keep(self, alpn: str, ticket: bytes, session: Any) -> None:
        self._sessions[alpn, ticket] = session
        if len(self._sessions) > self._most:
            self._sessions.popitem(last=False)

    def take(self, alpn: str, ticket: bytes) -> Any | None:
        """The session of that ticket and protocol, once."""
        return self._sessions.pop((alpn, ticket), None)
