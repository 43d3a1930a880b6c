"""An intake looks at what keeps messages from coming, or its spool from taking them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

from aqueduct_core.flight.stalls import Stall, StallLog
from aqueduct_core.intake.control.stalls import (
    Arrivals,
    SlowCursor,
    SpoolRoom,
    arrival_stalls,
    commit_stalls,
    endpoint_stalls,
    spool_stalls,
)
from aqueduct_core.intake.sessions.context import REFUSED, UNOPENED, SessionContext
from aqueduct_core.intake.sessions.frontend import Frontend
from aqueduct_core.intake.settings.intake import IntakeSettings
from aqueduct_core.spool import Spool

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Between two looks."""


class IntakeStalls:
    """Looks each `LOOK_SECONDS` from `start` to `end`, and whenever a status is told; each stall
    has its lines in the log (`StallLog`). Belongs to the event loop's thread.
    """

    def __init__(
        self,
        spool: Spool,
        settings: IntakeSettings,
        frontend: Frontend,
        context: SessionContext,
        slow_cursors: Callable[[], list[SlowCursor]],
    ) -> None:
        self._spool = spool
        self._settings = settings
        self._frontend = frontend
        self._context = context
        self._slow_cursors = slow_cursors
        self._log = StallLog()
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def start(self) -> None:
        self.now()
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self.start)

    def end(self) -> None:
        """Nothing is waited for any more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()

    def now(self) -> tuple[Stall, ...]:
        """What stands still, with how long it does."""
        if self._ended:
            return ()
        now = self._context.clock()
        for level, text in self._log.observe(self._found(), now):
            log.log(level, "%s", text)
        return self._log.current(now)

    def _found(self) -> Iterator[Stall]:
        spool, frontend = self._spool, self._frontend
        limit = self._settings.spool_max_bytes
        room = SpoolRoom(spool.directory, spool.bytes, limit, spool.full, spool.no_space)
        if room.full:
            yield from spool_stalls(room, self._slow_cursors())
        yield from endpoint_stalls(frontend.subscriptions, self._settings.scheme)
        late, now = self._context.late_commits, self._context.clock()
        yield from commit_stalls(self._settings.name, late.channels, now - late.last_at)
        refusals = self._context.refusals
        yield from arrival_stalls(
            Arrivals(
                self._settings.name,
                frontend.address,
                self._context.counters.accepted,
                refusals.totals[UNOPENED],
                refusals.latest.get(REFUSED, refusals.latest.get(UNOPENED, "")),
            )
        )
