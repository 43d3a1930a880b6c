"""Header data as callers like to write it, turned into the form of the protocol."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from aqueduct_core.engine.message_batch import Headers, ReceivedHeaders

Text: TypeAlias = str | bytes
HeadersLike: TypeAlias = Mapping[str, Text] | Mapping[bytes, Text] | Iterable[tuple[Text, Text]]
"""A mapping or pairs; keys and values may be text (UTF-8) or bytes. Order and repeats are kept."""


def as_headers(headers: HeadersLike) -> Headers:
    """Turn ``headers`` into pairs of bytes; those of a received message may be sent on as they are.

    Raises:
        ValueError: a key that is empty or not ASCII (AQ-HDRDATA-3).
        TypeError: a key or value that is neither text nor bytes.
    """
    if isinstance(headers, ReceivedHeaders):
        return headers
    if headers == ():
        return ()
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((_key(key), _bytes(value, "value")) for key, value in pairs)


def _key(key: Text) -> bytes:
    data = _bytes(key, "key")
    if not data or not data.isascii():
        raise ValueError(f"header key {key!r} is empty or not ASCII")
    return data


def _bytes(text: Text, what: str) -> bytes:
    if isinstance(text, str):
        return text.encode()
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    raise TypeError(f"a header {what} is text or bytes, not {type(text).__name__}")
