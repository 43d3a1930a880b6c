"""Text that somebody else wrote, as it may be shown: one line, and nothing that a terminal obeys.

Names of channels and producers, close reasons, headers and errors come from peers. A line break in
one forges a line of a log, an escape sequence rewrites a screen, and a control of writing direction
turns round what stands beside it. So all of it goes through `escaped` where it becomes part of a
message, a log line or the output of a command. Columns of data and JSON are left exact.
"""

from __future__ import annotations

LONGEST = 200
"""Characters of a single text of a peer, as far as nothing else is said."""


def escaped(text: str | bytes, limit: int | None = LONGEST) -> str:
    r"""``text`` in one line of printable characters, of at most ``limit`` of them (None: all).

    Whatever is not printable (controls and line breaks, format and direction controls, surrogates,
    unassigned code points) becomes an escape as in Python, such as ``\n`` or ``\u202e``; bytes are
    read as UTF-8, and what is none becomes ``\xff``. A text that is cut ends with ``…``. What is
    escaped once is not changed by doing it again, so a backslash stays as it is.
    """
    if isinstance(text, bytes):
        given = text if limit is None else text[: 4 * (limit + 1)]  # UTF-8: 4 bytes at most
        text = given.decode(errors="backslashreplace")
    if limit is not None:
        text = text[: limit + 1]
    if not text.isprintable():
        text = "".join(
            each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
        )
    if limit is not None and len(text) > limit:
        return text[: limit - 1] + "…"
    return text
