"""Whether the spool is still ours."""

from __future__ import annotations

from aqueduct_core.errors import AqueductError
from aqueduct_core.spool import Spool


class Fence:
    """Shows an owner that a later one has opened its spool.

    The lock alone keeps a second owner out while the first one lives, also one that is stopped.
    But a lock may be lost: a shared volume whose server forgot it, a file system that has none, a
    lock file that somebody removed. A successor takes the next epoch, and our name from the
    directory, before it looks at anything; so whoever finds its own claim there after a sync knows
    that its successor, if there will be one, finds what was synced: only then may it ack.

    A check opens one file. Once it has failed it fails for ever, with the same error.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
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
            self._spool.check_owner()
        except AqueductError as error:
            self._lost = error
            raise
