"""A header key as the text of a column, and back: a peer may send any bytes (AQ-HDRDATA-3).

UTF-8 is shown as it is. Of other keys each byte that is no UTF-8, and each backslash, is shown as
``\\xNN``. Two keys may look alike where one of them is made to; nothing else is lost.
"""

from __future__ import annotations

import re

_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def to_text(key: bytes) -> str:
    """The key as it is shown."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return key.replace(b"\\", rb"\x5c").decode("utf-8", "backslashreplace")


def from_text(text: str) -> bytes:
    """A key that is shown as ``text`` and is no longer than any other that is, whatever the text.

    Holds: ``to_text(from_text(text)) == text``, and it is the key that was shown where that was
    not UTF-8.
    """
    plain = text.encode()
    if b"\\x" not in plain:
        return plain
    key = _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), plain)
    return key if to_text(key) == text else plain
