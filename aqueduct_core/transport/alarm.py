"""The timer of a driver: when its link or its engine has something to do, and whether it has.

Most deadlines are put off long before they come, by what arrives: one timer of the event loop is
kept, no later than anything is due, and moved when it fires rather than each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aqueduct_core.transport.link import Link

LOSS_GRACE = 0.25
"""Seconds that the silence of a peer is not believed, at most, while there is something to read
that may be its answer."""
LOOK_AGAIN = 0.05
"""Seconds until that is looked at again."""


class Alarm:
    """Calls ``ring`` when something is due, until ``cancel``.

    Args:
        unread: whether something has arrived that nobody has looked at yet; then nothing is taken
            for lost that the peer has not acknowledged, for ``LOSS_GRACE`` at most.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        link: Link,
        unread: Callable[[], bool],
        ring: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._link = link
        self._unread = unread
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        self._link_due: float | None = None
        self._due: float | None = None  # of the link or the engine, whichever is first

    def set(self, wake: float | None) -> None:
        """The link has its deadlines of now, and the engine wants to be woken at ``wake``."""
        self._link_due = due = self._link.timer
        if wake is not None and (due is None or wake < due):
            due = wake
        self._due = due
        timer = self._timer
        if timer is not None:
            if due is not None and timer.when() <= due:
                return  # It fires early, and is set again without a turn.
            timer.cancel()
            self._timer = None
        if due is not None:
            self._timer = self._loop.call_at(due, self._fired)

    def link_is_due(self, now: float) -> bool:
        """A deadline of the link has come, and is none that something may put off which has arrived
        already."""
        due = self._link_due
        if due is None or now < due:
            return False
        return now >= due + LOSS_GRACE or self._link.awaits != due or not self._unread()

    def cancel(self) -> None:
        """It does not ring any more, and holds nobody who may hold it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        del self._ring, self._unread

    def _fired(self) -> None:
        self._timer = None
        now, due = self._loop.time(), self._due
        if due is None:
            return
        if now < due:  # it was put off since this timer was set
            self._timer = self._loop.call_at(due, self._fired)
        elif due == self._link_due and not self.link_is_due(now):
            self._timer = self._loop.call_at(now + LOOK_AGAIN, self._fired)
        else:
            self._ring()
