"""URLs of media as text, for people, options and rows: on the wire they are any bytes.

The text of a URL in UTF-8 is the URL. A backslash is written twice, and what is no UTF-8, or a
control character, as ``\\xNN``; so each URL has one text, and each text one URL.
"""

from __future__ import annotations

import re

_ESCAPED = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)} | {ord("\\"): "\\\\"}


def url_text(url: bytes) -> str:
    """A URL, or the prefix of some, as text."""
    # surrogates stand for bytes that are no UTF-8, which cannot hold any themselves
    text = url.decode("utf-8", "surrogateescape").translate(_CONTROL)
    return re.sub("[\udc80-\udcff]", lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", text)


def url_bytes(text: str) -> bytes:
    """The URL with this text.

    Raises:
        ValueError: with what is allowed.
    """
    if any(ord(character) in _CONTROL and character != "\\" for character in text):
        raise ValueError("a URL without control characters, which are written as \\xNN")
    parts: list[bytes] = []
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ValueError("a URL in UTF-8; other bytes are written as \\xNN") from None
    at = 0
    while (found := data.find(b"\\", at)) >= 0:
        match = _ESCAPED.match(data, found)
        if match is None:
            raise ValueError("a URL in which a backslash is written twice, and a byte as \\xNN")
        parts += data[at:found], b"\\" if match[1] is None else bytes.fromhex(match[1].decode())
        at = match.end()
    return b"".join((*parts, data[at:]))
