"""Who is at fault: the peer (`ProtocolFault`, closes the connection), the caller (`MediaError`)."""

from __future__ import annotations

INTERNAL_ERROR = 0x1
"""The code of QUIC with which a connection is closed for a fault of the peer, whatever it did (Q5):
the prototype knows no other."""
REFUSED = 0x1
"""The code of the application with which we reset our side of a post that is not taken to its
end."""
NO_ERROR = 0x0
"""The code of the application for a connection that nobody needs any more (K7)."""


class ProtocolFault(Exception):
    """The peer broke a rule. Never leaves the engine, which closes the connection (Q5) with the
    text as its reason: what came, and what is allowed instead."""


class MediaError(Exception):
    """The caller asked for what cannot be done; nothing has changed."""
