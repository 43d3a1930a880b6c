"""A bearer token from a file."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.errors import AuthFailed


def read_token(path: Path) -> str:
    """The token in a file: its first line without white space around it.

    Raises:
        AuthFailed.MISSING: the file cannot be read or is empty; the text names the file.
    """
    try:
        token = path.read_text("ascii").partition("\n")[0].strip()
    except OSError as error:
        raise _no_token(path, f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _no_token(path, "is not ASCII text") from None
    if not token:
        raise _no_token(path, "is empty")
    return token


def _no_token(path: Path, why: str) -> AuthFailed:
    return AuthFailed(
        "MISSING", f"the token file {path} {why}", "Give a readable file that holds the token"
    )
