"""Bearer tokens from a file: one a line, without the white space around it; empty lines do not
count. Whoever has to have one token takes the first."""

from __future__ import annotations

import codecs
from pathlib import Path

from aqueduct_core.errors import AuthFailed


def tokens_in(content: bytes) -> list[bytes]:
    """All that a file with this content holds."""
    # a byte order mark, as editors of Windows write it, is no part of the text
    return [
        token
        for line in content.removeprefix(codecs.BOM_UTF8).splitlines()
        if (token := line.strip())
    ]


def read_token(path: Path) -> str:
    """The first token in a file.

    Raises:
        AuthFailed.MISSING: the file cannot be read, holds none, or one that is no ASCII text; the
            error names the file.
    """
    try:
        tokens = tokens_in(path.read_bytes())
    except OSError as error:
        raise _no_token(path, f"cannot be read: {error.strerror}") from None
    if not tokens:
        raise _no_token(path, "is empty")
    try:
        return tokens[0].decode("ascii")
    except UnicodeDecodeError:
        raise _no_token(path, "is not ASCII text") from None


def _no_token(path: Path, why: str) -> AuthFailed:
    return AuthFailed(
        "MISSING", f"the token file {path} {why}", "Give a readable file that holds the token"
    )
