"""Stateless reset: how an endpoint says that it does not know a connection (RFC 9000 section 10.3).

With each connection id that a listener issues goes a token, made of that id and a static key. A
packet for an id that it does not know, as after a restart, is answered by one that looks like any
other and ends with the token: whoever was given it learns that the connection is gone, at once and
not by the idle timeout. Nothing is kept for it, and nobody who has not seen the connection can make
one up. Restarts keep the key, and no two listeners have the same: either could be made to
end connections of the other.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable

from aqueduct_core.errors import InvalidOption
from aqueduct_core.transport.link import CONNECTION_ID_LENGTH

KEY_SIZE = 32
TOKEN_SIZE = 16
SHORTEST = 5 + TOKEN_SIZE
"""Bytes: whatever is shorter is no packet of QUIC."""
LONGEST = 42
"""Bytes: as much as makes it look like any short packet."""
FORM, SHORT_HEADER = 0xC0, 0x40
"""The first two bits of a packet with a short header; others begin connections or belong to their
handshakes, whose ends have no token yet."""
PER_SECOND = 500
"""Resets: enough for all clients of a listener in some seconds, as each of them asks again; little
work for whoever sends garbage in any amount."""


class StatelessResets:
    """Makes the tokens and resets of one listener.

    A reset is shorter than what it answers, so that two ends that know nothing of each other come
    to rest, and nobody makes us send more than they do; and there are at most ``PER_SECOND``.
    """

    def __init__(self, key: bytes | None = None) -> None:
        """``key``: secret, ``KEY_SIZE`` bytes; None: a new one, for the life of the process.

        Raises: InvalidOption.BAD_VALUE for a key of another size.
        """
        if key is not None and len(key) != KEY_SIZE:
            raise InvalidOption(
                "BAD_VALUE",
                f"the key of stateless resets has {len(key)} bytes",
                f"Give {KEY_SIZE} secret bytes",
            )
        self._key = os.urandom(KEY_SIZE) if key is None else key
        self._left = float(PER_SECOND)
        self._counted_at = 0.0

    def token(self, connection_id: bytes) -> bytes:
        """What ends a reset of the connection with this id."""
        return hmac.digest(self._key, connection_id, hashlib.sha256)[:TOKEN_SIZE]

    def answer(self, datagram: bytes, now: float) -> bytes | None:
        """The reset that answers a packet of an unknown connection, if there is to be one."""
        size = min(len(datagram) - 1, LONGEST)
        if size < SHORTEST or datagram[0] & FORM != SHORT_HEADER:
            return None
        if not self._may(now):
            return None
        token = self.token(datagram[1 : 1 + CONNECTION_ID_LENGTH])
        noise = bytearray(os.urandom(size - TOKEN_SIZE))
        noise[0] = SHORT_HEADER | noise[0] & ~FORM
        return bytes(noise) + token

    def _may(self, now: float) -> bool:
        self._left = min(PER_SECOND, self._left + PER_SECOND * (now - self._counted_at))
        self._counted_at = now
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True


def is_reset(datagram: bytes, tokens: Iterable[bytes]) -> bool:
    """Whether the peer of a connection with these tokens ends it by this datagram.

    What it begins with does not matter. Takes the same time wherever a token differs.
    """
    end = datagram[-TOKEN_SIZE:]
    found = [hmac.compare_digest(end, token) for token in tokens]
    return len(datagram) >= SHORTEST and any(found)
