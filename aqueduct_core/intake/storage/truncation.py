"""Gives back the space of what every cursor has passed, a segment a turn of the event loop."""

from __future__ import annotations

from collections.abc import Callable

from aqueduct_core.errors import AqueductError
from aqueduct_core.intake.storage.fence import Fence
from aqueduct_core.spool import Spool

PAUSE = 0.01
"""Seconds between two segments that are removed, so that the event loop goes on in between."""

FULL_PAUSE = 0.05
"""The same while the spool is full: producers wait for the space."""


class Truncation:
    """``soon`` asks for it, any number of times. Ends with `end`, or when the disk fails."""

    def __init__(
        self,
        spool: Spool,
        fence: Fence,
        later: Callable[[float, Callable[[], None]], object],
        failed: Callable[[AqueductError], None],
    ) -> None:
        self._spool = spool
        self._fence = fence
        self._later = later
        self._failed = failed
        self._asked = False
        self._over = False

    def soon(self, seconds: float = 0.0) -> None:
        if not self._asked:
            self._asked = True
            self._later(seconds, self._trim)

    def end(self) -> None:
        self._over = True

    def _trim(self) -> None:
        self._asked = False
        if self._over:
            return
        try:
            self._fence.check()
            if self._spool.trim():
                self.soon(PAUSE)
            elif self._spool.full:
                self.soon(FULL_PAUSE)
        except AqueductError as error:
            self._over = True
            self._failed(error)
