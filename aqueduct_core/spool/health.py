"""Whether the disk of a spool can still be trusted: one failure, and nothing is written again."""

from __future__ import annotations

import errno
import logging
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.primitives.json_file import unusable

NO_SPACE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""What was not written is undone and tried again: a full disk, a quota, a limit of file sizes."""

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

    def fenced(self, error: SpoolFailed) -> SpoolFailed:
        """The directory is not ours any more: nothing is written, or reported, from now on."""
        self.failure = error.what
        log.error("%s", error.what)
        return error

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

    @contextmanager
    def noting(self) -> Iterator[None]:
        """The same for the replacing of a small file: without space the old one stays.

        Raises:
            SpoolFailed: FULL or IO.
        """
        with self.guard():
            try:
                yield
            except OSError as error:
                if error.errno not in NO_SPACE:
                    raise
                raise SpoolFailed(
                    "FULL", f"{self._directory}: {error}", "Free some space on that disk"
                ) from error


def no_space(error: Exception) -> bool:
    """Whether the catalog found no space: it undoes the change, and may be tried again."""
    code = getattr(error, "sqlite_errorcode", 0)
    # the second when its shared memory, a file beside it, finds none
    return code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)


def not_opened(directory: Path, error: Exception) -> SpoolFailed:
    """Nothing was changed that a later opening would miss."""
    if no_space(error) or (isinstance(error, OSError) and error.errno in NO_SPACE):
        return SpoolFailed(
            "FULL", f"{directory} cannot be opened: {error}", "Free some space on that disk"
        )
    return failed_by(directory, error)


def failed_by(directory: Path, error: Exception) -> SpoolFailed:
    """Also where nothing has failed, and this process has no right to see it."""
    if isinstance(error, PermissionError):
        return unusable(directory, error, "")
    return io_failed(directory, str(error))


def io_failed(directory: Path, reason: str) -> SpoolFailed:
    return SpoolFailed(
        "IO",
        f"the spool in {directory} has failed: {reason}",
        "Check the disk, then start the owner again: what was reported stored is kept",
    )
