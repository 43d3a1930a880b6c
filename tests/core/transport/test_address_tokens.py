"""Tokens that prove an address: whose, for how long, how often."""

from __future__ import annotations

from aqueduct_core.transport.address_tokens import (
    LATER_LIFETIME,
    RETRY_LIFETIME,
    AddressTokens,
    TokenCheck,
    TokenState,
)
from aqueduct_core.transport.link import Address

HOME: Address = ("192.0.2.7", 5000)
FIRST, SOURCE = b"original", b"retry-id"


def test_a_retry_token_proves_the_very_address_for_some_seconds() -> None:
    tokens = AddressTokens()
    token = tokens.for_retry(HOME, FIRST, SOURCE, 10.0)
    proved = TokenCheck(TokenState.PROVED, FIRST)
    refused = TokenCheck(TokenState.REFUSED)
    assert tokens.check(token, HOME, SOURCE, 10.0 + RETRY_LIFETIME) == proved
    assert tokens.check(token, HOME, SOURCE, 10.1 + RETRY_LIFETIME) == refused
    assert tokens.check(token, (HOME[0], 5001), SOURCE, 10.0) == refused
    assert tokens.check(token, ("192.0.2.8", 5000), SOURCE, 10.0) == refused
    assert tokens.check(token, HOME, FIRST, 10.0) == refused
    assert AddressTokens().check(token, HOME, SOURCE, 10.0) == refused


def test_a_later_token_proves_the_host_for_a_day_once() -> None:
    tokens = AddressTokens()
    unknown = TokenCheck(TokenState.UNKNOWN)
    token = tokens.for_later(HOME, 10.0)
    assert tokens.check(token, ("192.0.2.8", 5000), b"any", 11.0) == unknown
    assert tokens.check(token, HOME, b"any", 10.1 + LATER_LIFETIME) == unknown
    assert tokens.check(token, (HOME[0], 5001), b"any", 11.0) == TokenCheck(TokenState.PROVED)
    assert tokens.check(token, HOME, b"any", 11.0) == unknown
    assert AddressTokens().check(token, HOME, b"any", 11.0) == unknown


def test_addresses_are_the_same_on_a_socket_of_both_families() -> None:
    tokens = AddressTokens()
    token = tokens.for_retry(HOME, FIRST, SOURCE, 0.0)
    mapped: Address = (f"::ffff:{HOME[0]}", HOME[1], 0, 0)
    assert tokens.check(token, mapped, SOURCE, 1.0).state is TokenState.PROVED
    scoped: Address = ("fe80::1%eth0", 9, 0, 3)
    assert tokens.check(tokens.for_later(scoped, 0.0), scoped, b"", 1.0).state is TokenState.PROVED


def test_no_garbage_proves_anything() -> None:
    tokens = AddressTokens()
    retry = tokens.for_retry(HOME, FIRST, SOURCE, 0.0)
    later = tokens.for_later(HOME, 0.0)
    for token in (b"", b"R", b"N", b"R" + bytes(80), b"N" + bytes(80), b"x" * 40, later[:-1]):
        state = tokens.check(token, HOME, SOURCE, 0.0).state
        assert state is (TokenState.REFUSED if token[:1] == b"R" else TokenState.UNKNOWN)
    for i in range(len(retry)):
        flipped = bytearray(retry)
        flipped[i] ^= 1
        assert tokens.check(bytes(flipped), HOME, SOURCE, 0.0).state is not TokenState.PROVED
    # A token of one kind is none of the other.
    assert tokens.check(b"R" + later[1:], HOME, SOURCE, 0.0).state is TokenState.REFUSED
