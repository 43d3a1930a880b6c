"""The TLS sessions that a listener has given out."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any


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
