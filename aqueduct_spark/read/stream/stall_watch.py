"""A streaming query tells what it waits for: in the driver's log, in its progress, as an error."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from aqueduct_core.flight.stalls import Stall, StallLog

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""Between two looks."""


class QueryStalls:
    """Looks each `LOOK_SECONDS`, in a thread of its own: while a batch runs, or Spark waits to run
    one, nobody calls the planner. Asks nobody, so nothing holds it up.

    Args:
        name: of the query, for the log.
        find: what stands still now (monotonic seconds); called from any thread.
        wait, refusal: seconds after which it is an error (`StallLog.overdue`).

    Ends with `stop`, or the process.
    """

    def __init__(
        self,
        name: str,
        find: Callable[[float], Iterable[Stall]],
        *,
        wait: float | None,
        refusal: float | None,
    ) -> None:
        self._name = name
        self._find = find
        self._limits = ("stallTimeout", wait), ("refusalTimeout", refusal)
        self._lock = threading.Lock()
        self._log = StallLog()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stalls", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises: AqueductError: what the query has waited for is longer than it is to wait."""
        with self._lock:
            error = self._log.overdue(time.monotonic(), *self._limits)
        if error is not None:
            raise error

    def reported(self) -> tuple[Stall, ...]:
        """What the query waits for, as far as the log has it."""
        with self._lock:
            return self._log.reported(time.monotonic())

    def look(self) -> None:
        """Look once; what is new is in the log behind this."""
        now = time.monotonic()
        with self._lock:
            lines = self._log.observe(self._find(now), now)
        for level, text in lines:
            log.log(level, "%s: %s", self._name, text)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=1.0)

    def _run(self) -> None:
        while not self._over.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:
                log.exception("what the query waits for is not known")
