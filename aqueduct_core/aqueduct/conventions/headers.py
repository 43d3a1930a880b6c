"""Header keys and close codes that we agree on, on top of the protocol (pure; builds and parses).

A peer that does not know them loses nothing: they are ordinary header data. Numbers are decimal
ASCII digits. A value that breaks its form is refused with ``BadHeader``, since an identity or a
sequence number that is guessed would break the promise that nothing is stored twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from aqueduct_core.engine.message_batch import Headers

AUTHORIZATION = b"authorization"
PRODUCER = b"producer"
SEQUENCE_START = b"sequence-start"
NAME = b"name"
RECEIPTS = b"receipts"
BATCH = b"batch"
PARTITION = b"partition"
ROW = b"row"
SOURCE = b"source"
SOURCE_OFFSET = b"source-offset"
DEDUPLICATES = b"deduplicates"
RUN = b"producer-run"
RUN_START = b"run-start"
STOOD_AT = b"stood-at"
TELLS = b"tells"
POSITION_OF = b"position-of"
CHECKSUMS = b"checksums"

BY_SEQUENCE = b"sequence"
"""Value of ``deduplicates``: who accepts stores each logical number of a channel once."""
BY_SOURCE = b"source"
"""Another value of it: who accepts knows rows by ``source`` and ``source-offset`` too."""

POSITIONS = b"positions"
"""Value of ``tells``: who accepts answers ``position-of`` (`positions`)."""

CHECKSUMS_VERSION = b"1"
"""Value of ``checksums``: of the questions that a server answers, and of one such question."""

MAX_PRODUCER_BYTES = 64
MAX_RUN_BYTES = 64
MAX_NAME_BYTES = 256
MAX_SEQUENCE = 2**62

CODE_REJECTED = 0x100
"""Close code: headers of ours were refused (a token missing or wrong, a bad header or question)."""
CODE_ABORTED = 0x101
"""Close code: the application gave the connection up without draining it."""
CODE_NOT_REPEATABLE = 0x102
"""Close code: messages came under numbers that are stored with other content."""
CODE_FENCED = 0x103
"""Close code: another run of the same producer has taken a channel of this connection."""
OWN_CODES = 0x1000
"""Close codes from here on are the application's own."""

_BEARER = b"Bearer "
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


class BadHeader(ValueError):
    """A header of ours with a value that breaks its form. The text names the key, not the value."""


@dataclass(frozen=True, slots=True)
class ConnectionClaims:
    """What a client says about itself in its connection headers; None: it said nothing."""

    token: str | None = field(default=None, repr=False)
    producer: str | None = None
    sequence_start: int | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True)
class ChannelClaims:
    """What the creator of a channel says about it in the attachment's headers."""

    name: str | None = None
    sequence_start: int | None = None
    run_start: int | None = None
    stood_at: int | None = None


def connection_headers(
    *,
    token: str | None = None,
    producer: str | None = None,
    sequence_start: int | None = None,
    run: str | None = None,
    extra: Headers = (),
) -> Headers:
    """Build connection headers: ours first, then ``extra`` in its order.

    Raises:
        BadHeader: a producer or a run that is empty or over 64 bytes, a number out of range, a
            token with bytes that a header must not hold.
    """
    headers: list[tuple[bytes, bytes]] = []
    if token is not None:
        headers.append((AUTHORIZATION, _BEARER + _printable(AUTHORIZATION, token)))
    if producer is not None:
        headers.append((PRODUCER, _text(PRODUCER, producer, MAX_PRODUCER_BYTES)))
    if sequence_start is not None:
        headers.append((SEQUENCE_START, decimal(sequence_start)))
    if run is not None:
        headers.append((RUN, _text(RUN, run, MAX_RUN_BYTES)))
    return (*headers, *extra)


def channel_headers(
    *,
    name: str | None = None,
    sequence_start: int | None = None,
    run_start: int | None = None,
    stood_at: int | None = None,
    extra: Headers = (),
) -> Headers:
    """Build the headers of an attachment: ours first, then ``extra``. Raises: BadHeader."""
    headers: list[tuple[bytes, bytes]] = []
    if name is not None:
        headers.append((NAME, _text(NAME, name, MAX_NAME_BYTES)))
    if sequence_start is not None:
        headers.append((SEQUENCE_START, decimal(sequence_start)))
    if run_start is not None:
        headers.append((RUN_START, decimal(run_start)))
    if stood_at is not None:
        headers.append((STOOD_AT, decimal(stood_at)))
    return (*headers, *extra)


def read_connection(headers: Headers) -> ConnectionClaims:
    """Parse connection headers. Raises: BadHeader."""
    authorization = single(headers, AUTHORIZATION)
    token: str | None = None
    if authorization is not None:
        if not authorization.startswith(_BEARER):
            raise BadHeader("header authorization is not of the form 'Bearer <token>'")
        try:
            token = authorization.removeprefix(_BEARER).decode("ascii")
        except UnicodeDecodeError:
            raise BadHeader("header authorization is not ASCII") from None
    return ConnectionClaims(
        token,
        _read_text(headers, PRODUCER, MAX_PRODUCER_BYTES),
        _read_number(headers, SEQUENCE_START),
        _read_text(headers, RUN, MAX_RUN_BYTES),
    )


def read_channel(headers: Headers) -> ChannelClaims:
    """Parse the headers of an attachment. Raises: BadHeader."""
    return ChannelClaims(
        _read_text(headers, NAME, MAX_NAME_BYTES),
        _read_number(headers, SEQUENCE_START),
        _read_number(headers, RUN_START),
        _read_number(headers, STOOD_AT),
    )


def position_of(name: str) -> tuple[bytes, bytes]:
    """The header of a oneshot on which its creator wants to be told where the channel of this name
    stands. Raises: BadHeader."""
    return POSITION_OF, _text(POSITION_OF, name, MAX_NAME_BYTES)


def read_position_of(headers: Headers) -> str | None:
    """The channel whose position is asked for; None: none is. Raises: BadHeader."""
    return _read_text(headers, POSITION_OF, MAX_NAME_BYTES)


def without_secrets(headers: Headers) -> Headers:
    """The headers that may be stored, shown or logged: all but ``authorization``."""
    return tuple(pair for pair in headers if pair[0].lower() != AUTHORIZATION)


def single(headers: Headers, key: bytes) -> bytes | None:
    """The value of a key of ours; None where there is none. Raises: BadHeader if it is repeated."""
    if not headers:
        return None
    found = [value for k, value in headers if k == key]
    if len(found) > 1:
        raise BadHeader(f"header {key.decode()} is repeated")
    return found[0] if found else None


def decimal(number: int) -> bytes:
    """A number as header value: decimal ASCII digits, 0 to 2^62 - 1."""
    if not 0 <= number < MAX_SEQUENCE:
        raise BadHeader(f"number {number} is not in 0 … 2^62 - 1")
    return b"%d" % number


def parse_decimal(key: bytes, value: bytes) -> int:
    """The inverse of ``decimal``. Raises: BadHeader."""
    if len(value) > 19 or not value.isdigit():
        raise BadHeader(f"header {key.decode()} is not a decimal number")
    number = int(value)
    if number >= MAX_SEQUENCE:
        raise BadHeader(f"header {key.decode()} is over 2^62 - 1")
    return number


def key_to_text(key: bytes) -> str:
    """A header key as the text of a column: a peer may send any bytes (AQ-HDRDATA-3).

    UTF-8 is shown as it is. Of other keys each byte that is no UTF-8, and each backslash, is shown
    as ``\\xNN``. Two keys may look alike where one of them is made to; nothing else is lost.
    """
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.replace(b"\\", rb"\x5c").decode("utf-8", "backslashreplace")


def key_from_text(text: str) -> bytes:
    """A key that is shown as ``text`` and is no longer than any other that is, whatever the text.

    Holds: ``key_to_text(key_from_text(text)) == text``, and it is the key that was shown where
    that was not UTF-8.
    """
    plain = text.encode()
    if b"\\x" not in plain:
        return plain
    key = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), plain)
    return key if key_to_text(key) == text else plain


def _read_number(headers: Headers, key: bytes) -> int | None:
    value = single(headers, key)
    return None if value is None else parse_decimal(key, value)


def _read_text(headers: Headers, key: bytes, limit: int) -> str | None:
    value = single(headers, key)
    if value is None:
        return None
    if not 0 < len(value) <= limit:
        raise BadHeader(f"header {key.decode()} has {len(value)} bytes; 1 to {limit} are allowed")
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise BadHeader(f"header {key.decode()} is not UTF-8") from None
    if "\0" in text:
        raise BadHeader(f"header {key.decode()} holds a NUL")
    return text


def _text(key: bytes, value: str, limit: int) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"{key.decode()} is text, not {type(value).__name__}")
    data = value.encode()
    if not 0 < len(data) <= limit:
        raise BadHeader(f"{key.decode()} has {len(data)} bytes; 1 to {limit} are allowed")
    if b"\0" in data:
        raise BadHeader(f"{key.decode()} holds a NUL")
    return data


def _printable(key: bytes, value: str) -> bytes:
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise BadHeader(
            f"{key.decode()}: the token is empty or holds spaces or unprintable characters"
        )
    return value.encode()
