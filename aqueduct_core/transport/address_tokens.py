"""Address validation: tokens that prove that a client receives at the address it claims.

Two kinds (RFC 9000 §8.1). A *retry* token answers a first Initial, costs the client a round trip,
and is good for some seconds from that very address and port. A *later* token travels in NEW_TOKEN
and spares the next connection from the same host that round trip, once.

Tokens are sealed with a key that lives as long as the listener, so nothing about a client is
kept until it has proved its address.
"""

from __future__ import annotations

import ipaddress
import os
import struct
from collections import OrderedDict
from enum import Enum, auto
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from aqueduct_core.transport.link import Address

RETRY_LIFETIME = 30.0
"""Seconds: a client returns a retry token at once."""
LATER_LIFETIME = 86_400.0
USED = 65_536
"""Used later tokens that are remembered; the oldest are forgotten and could be used again."""

RETRY, LATER = b"R", b"N"
NONCE = 12
_HEAD = struct.Struct("!d18sB")


class TokenState(Enum):
    """What a token says about the address that it came from."""

    PROVED = auto()
    UNKNOWN = auto()
    """No token, or none that counts: ask with a Retry."""
    REFUSED = auto()
    """A retry token that is not right: the client would not accept another Retry."""


class TokenCheck(NamedTuple):
    state: TokenState
    original: bytes | None = None
    """Of a retry token: the destination connection id of the client's first Initial."""


class AddressTokens:
    """Makes and checks the tokens of one listener. ``now`` is a monotonic time in seconds.

    Holds: a key, and the nonces of the last ``USED`` later tokens that were used.
    """

    def __init__(self) -> None:
        self._aead = AESGCM(AESGCM.generate_key(bit_length=128))
        self._used: OrderedDict[bytes, None] = OrderedDict()

    def for_retry(self, address: Address, original: bytes, source: bytes, now: float) -> bytes:
        """A token for a Retry with the source connection id ``source``."""
        body = _HEAD.pack(now, _packed(address, with_port=True), len(original))
        return self._seal(RETRY, body + original + source)

    def for_later(self, address: Address, now: float) -> bytes:
        """A token for NEW_TOKEN."""
        return self._seal(LATER, _HEAD.pack(now, _packed(address, with_port=False), 0))

    def check(self, token: bytes, address: Address, destination: bytes, now: float) -> TokenCheck:
        """What ``token`` of an Initial from ``address`` to ``destination`` proves. Never raises."""
        kind = token[:1]
        wrong = TokenCheck(TokenState.REFUSED if kind == RETRY else TokenState.UNKNOWN)
        nonce = token[1 : 1 + NONCE]
        try:
            body = self._aead.decrypt(nonce, token[1 + NONCE :], kind)
        except (InvalidTag, ValueError):
            return wrong
        made, place, length = _HEAD.unpack_from(body)
        if kind == RETRY:
            original = body[_HEAD.size : _HEAD.size + length]
            # A client must send to the Retry's source id (RFC 9000 §17.2.5.2).
            if (
                place != _packed(address, with_port=True)
                or body[_HEAD.size + length :] != destination
                or now - made > RETRY_LIFETIME
            ):
                return wrong
            return TokenCheck(TokenState.PROVED, original)
        if (
            place != _packed(address, with_port=False)
            or now - made > LATER_LIFETIME
            or nonce in self._used
        ):
            return wrong
        self._used[nonce] = None
        if len(self._used) > USED:
            self._used.popitem(last=False)
        return TokenCheck(TokenState.PROVED)

    def _seal(self, kind: bytes, body: bytes) -> bytes:
        nonce = os.urandom(NONCE)
        return kind + nonce + self._aead.encrypt(nonce, body, kind)


def _packed(address: Address, *, with_port: bool) -> bytes:
    """18 bytes: the address as IPv6 (a dual-stack socket shows IPv4 so), then the port or 0."""
    host = ipaddress.ip_address(address[0].partition("%")[0])
    if isinstance(host, ipaddress.IPv4Address):
        host = ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + host.packed)
    return host.packed + (address[1] if with_port else 0).to_bytes(2)
