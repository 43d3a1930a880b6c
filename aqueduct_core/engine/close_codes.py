"""Whose code a connection ended with, and what the codes of QUIC are called.

An application protocol and QUIC number their errors independently (RFC 9000 section 20): 3 is what
the protocol on top makes of it where the application closed, and FLOW_CONTROL_ERROR where QUIC did.
So a code says something together with its origin only, and only the codes of the application are
answers of the peer; all else is a connection that got lost.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class CloseOrigin(Enum):
    """What ended a connection. The value is the reason, where nobody gives one."""

    APPLICATION = "closed"
    """The application of either side, with a code of its protocol (CONNECTION_CLOSE 0x1d)."""
    TRANSPORT = "a transport error"
    """QUIC of either side, with a code of its own (CONNECTION_CLOSE 0x1c)."""
    IDLE_TIMEOUT = "idle timeout"
    """Nothing was heard for so long. There is no code (0), as for all that follow."""
    HANDSHAKE_TIMEOUT = "handshake timeout"
    STATELESS_RESET = "stateless reset"
    """The peer's host says that it does not know the connection (any more)."""
    ABANDONED = "abandoned"
    """Forgotten on this side, without a word to the peer."""


class ConnectionEnd(Protocol):
    """What is told of the end of a connection, by an input, an event or an outcome."""

    @property
    def code(self) -> int: ...

    @property
    def reason(self) -> str: ...

    @property
    def by_peer(self) -> bool: ...

    @property
    def origin(self) -> CloseOrigin: ...


def how_lost(end: ConnectionEnd) -> str:
    """Why a connection was lost, for a reader: the error of QUIC by its name, or what happened.

    For ends of other origins than APPLICATION; whose codes are for their protocol to explain.
    """
    if end.origin is not CloseOrigin.TRANSPORT:
        return end.reason or end.origin.value
    who = "the peer" if end.by_peer else "this side"
    why = f": {end.reason}" if end.reason else ""
    return f"QUIC's {transport_error(end.code)} from {who}{why}"


def how_ended(end: ConnectionEnd, this_side: str = "this side") -> str:
    """The end of a connection for an event or a log: whose close it was, or why it was lost."""
    if end.origin is not CloseOrigin.APPLICATION:
        return f"lost: {how_lost(end)}"
    by = "peer" if end.by_peer else this_side
    return f"closed by {by}, code {end.code}" + (f": {end.reason}" if end.reason else "")


def transport_error(code: int) -> str:
    """A QUIC error code by its name, with the number: ``FLOW_CONTROL_ERROR (0x3)``."""
    if CRYPTO_ERROR <= code <= CRYPTO_ERROR + 0xFF:
        alert = code - CRYPTO_ERROR
        name = _ALERTS.get(alert)
        return f"CRYPTO_ERROR (0x{code:x}, TLS alert {alert}{f' {name}' if name else ''})"
    return f"{_ERRORS.get(code, 'error')} (0x{code:x})"


CONNECTION_REFUSED = 0x02
"""The code of QUIC for a server that does not take a connection now."""

CRYPTO_ERROR = 0x100
"""QUIC error codes from here on hold a TLS alert in the low byte (RFC 9001 section 4.8)."""

_ERRORS = {
    0x00: "NO_ERROR",
    0x01: "INTERNAL_ERROR",
    CONNECTION_REFUSED: "CONNECTION_REFUSED",
    0x03: "FLOW_CONTROL_ERROR",
    0x04: "STREAM_LIMIT_ERROR",
    0x05: "STREAM_STATE_ERROR",
    0x06: "FINAL_SIZE_ERROR",
    0x07: "FRAME_ENCODING_ERROR",
    0x08: "TRANSPORT_PARAMETER_ERROR",
    0x09: "CONNECTION_ID_LIMIT_ERROR",
    0x0A: "PROTOCOL_VIOLATION",
    0x0B: "INVALID_TOKEN",
    0x0C: "APPLICATION_ERROR",
    0x0D: "CRYPTO_BUFFER_EXCEEDED",
    0x0E: "KEY_UPDATE_ERROR",
    0x0F: "AEAD_LIMIT_REACHED",
    0x10: "NO_VIABLE_PATH",
    0x11: "VERSION_NEGOTIATION_ERROR",
}
"""RFC 9000 section 20.1, RFC 9001 section 6.6 and RFC 9368 section 10.2."""

_ALERTS = {
    0: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    22: "record_overflow",
    40: "handshake_failure",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    90: "user_canceled",
    109: "missing_extension",
    110: "unsupported_extension",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    115: "unknown_psk_identity",
    116: "certificate_required",
    120: "no_application_protocol",
}
"""RFC 8446 section 6."""
