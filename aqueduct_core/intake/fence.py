"""Whether the spool is still ours: its lock says so, and beyond it the epoch in its directory."""

from __future__ import annotations

import os
from pathlib import Path

from aqueduct_core.errors import AqueductError, SpoolFailed
from aqueduct_core.spool.identity import IDENTITY, load_identity


class Fence:
    """Tells an owner that a later one has opened its spool.

    The lock alone keeps a second owner out while the first one lives, also one that is stopped.
    But a lock may be lost: a shared volume whose server forgot it, a lock file that somebody
    removed. A successor raises the epoch in the directory before it looks at anything, so whoever
    finds its own epoch there after a sync knows that its successor, if there will be one, finds
    what was synced: only then may it ack.

    A check costs one ``stat``. Once it has failed it fails for ever.
    """

    def __init__(self, directory: Path, spool: str, epoch: int) -> None:
        self._directory = directory
        self._path = directory / IDENTITY
        self._ours = (spool, epoch)
        self._stamp: tuple[int, int, int] | None = None
        self._lost: AqueductError | None = None

    @property
    def lost(self) -> bool:
        """Whether a check has failed."""
        return self._lost is not None

    def check(self) -> None:
        """
        Raises:
            SpoolFailed: LOCKED when another owner has come, IO when the directory is gone.
        """
        if self._lost is not None:
            raise self._lost
        try:
            status = os.stat(self._path)
            stamp = (status.st_dev, status.st_ino, status.st_mtime_ns)
            if stamp == self._stamp:
                return
            found = load_identity(self._directory)
        except (OSError, AqueductError) as error:
            self._lost = _gone(self._directory, str(error))
            raise self._lost from None
        if found is None:
            self._lost = _gone(self._directory, f"{IDENTITY} is missing or damaged")
            raise self._lost
        if (found.id, found.epoch) != self._ours:
            self._lost = SpoolFailed(
                "LOCKED",
                f"{self._directory} was opened by another intake, epoch {found.epoch} after"
                f" {self._ours[1]}",
                "Nothing was acked since; let that intake go on, and keep the lock file in place",
            )
            raise self._lost
        self._stamp = stamp


def _gone(directory: Path, why: str) -> SpoolFailed:
    return SpoolFailed(
        "IO",
        f"the spool directory {directory} is not as this intake left it: {why}",
        "Bring the directory back, then start the intake again",
    )
