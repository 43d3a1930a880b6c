"""Whether the disk of a spool can still be trusted: one failure, and nothing is written again."""

from __future__ import annotations

import errno
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct_core.errors import SpoolFailed

NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT))

log = logging.getLogger(__name__)


class Health:
    """Turns errors of the disk into ``SpoolFailed``, and remembers the first that is final."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.failure: str | None = None

    def check(self) -> None:
        """
        Raises:
            SpoolFailed: IO after a failure.
        """
        if self.failure is not None:
            raise io_failed(self._directory, self.failure)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Errors inside are final, but for a catalog that finds no space.

        Raises:
            SpoolFailed: FULL or IO.
        """
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            if no_space(error):
                raise SpoolFailed(
                    "FULL", f"{self._directory}: {error}", "Free some space on that disk"
                ) from error
            self.failure = str(error)
            log.error("the spool in %s stores nothing any more: %s", self._directory, error)
            raise io_failed(self._directory, self.failure) from error


def no_space(error: Exception) -> bool:
    """Whether the catalog found no space: it undoes the change, and may be tried again."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL


def not_opened(directory: Path, error: Exception) -> SpoolFailed:
    """Nothing was changed that a later opening would miss."""
    if no_space(error) or (isinstance(error, OSError) and error.errno in NO_SPACE):
        return SpoolFailed(
            "FULL", f"{directory} cannot be opened: {error}", "Free some space on that disk"
        )
    return io_failed(directory, str(error))


def io_failed(directory: Path, reason: str) -> SpoolFailed:
    return SpoolFailed(
        "IO",
        f"the spool in {directory} has failed: {reason}",
        "Check the disk, then start the owner again: what was reported stored is kept",
    )
