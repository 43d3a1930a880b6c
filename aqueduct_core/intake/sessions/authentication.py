"""Who may connect: bearer tokens from settings or a file that may change while we run."""

from __future__ import annotations

import hmac
import logging
import os
from pathlib import Path

from aqueduct_core.errors import InvalidOption
from aqueduct_core.intake.settings.intake import AuthSettings
from aqueduct_core.primitives.token_file import tokens_in

log = logging.getLogger(__name__)


class Authentication:
    """Compares tokens in constant time; the file is looked at again for each new connection.

    A file that cannot be read any more keeps the tokens that it had. Raises at the start
    InvalidOption.BAD_VALUE when the file cannot be read or holds no token.
    """

    def __init__(self, settings: AuthSettings) -> None:
        self._fixed = [settings.token.encode()] if settings.token is not None else []
        self._path = Path(settings.token_file) if settings.token_file is not None else None
        self._stamp: tuple[int, int, int] | None = None
        self._from_file: list[bytes] = []
        self._required = settings.required
        self._readable = True
        if self._path is not None:
            try:
                self._reload(self._path)
            except OSError as error:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"option auth.tokenFile: {self._path} cannot be read: {error.strerror}",
                    "Name a file that the intake's user may read, one token a line",
                ) from None
            if not self._from_file:
                raise InvalidOption(
                    "BAD_VALUE",
                    f"option auth.tokenFile: {self._path} holds no token",
                    "Put one token a line into it",
                )

    def refusal(self, token: str | None) -> str | None:
        """Why a client with this token may not connect; None: it may."""
        if not self._required:
            return None
        if token is None:
            return "a bearer token is required in header authorization"
        if self._path is not None:
            try:
                self._reload(self._path)
                self._readable = True
            except OSError:
                if self._readable:  # strangers bring us here as often as they like
                    log.warning("the token file %s cannot be read; old tokens stay", self._path)
                self._readable = False
        given = token.encode()
        matches = [hmac.compare_digest(given, known) for known in self._fixed + self._from_file]
        return None if any(matches) else "the bearer token is not accepted"

    def _reload(self, path: Path) -> None:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
            if stamp != self._stamp:
                self._from_file = tokens_in(file.read())
                self._stamp = stamp
