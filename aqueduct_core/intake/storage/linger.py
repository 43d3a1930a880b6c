"""How long a group stays open where nothing more is coming: until ending it costs nobody anything.

A group that ends late is large, and costs little for each message; a message in one that ends early
is acked soon. Where the disk waits for work and nothing more came, ending the group at once costs
only processor time, and of that it may take a part of what would be left over: so the group stays
open until the process has had nothing to do for a multiple of the time that ending groups takes.
Messages that come now and then are written at once, those that come steadily in groups of a few
milliseconds; the busier the process is, and the more a group costs (many channels, a slow
machine), the longer one is open, up to the whole time of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

SPARE = 1
"""Seconds without work, for each second of processor time that goes to ending groups early."""
FIRST_COST = 400e-6
"""Seconds of processor time to end a group, before any was measured."""
MOST = 5 * FIRST_COST
"""Seconds that a group is taken to have cost at most: what takes longer once is not the group's
fault (a module that is imported, a collection of garbage)."""
KEPT = 7 / 8
"""Of what groups have cost, is remembered with each further one."""
LEAST_DELAY = 500e-6
"""Seconds between two looks at the same group: they cost something themselves."""
BULK_BYTES = 64 << 10
"""A group with more than this is one of a steady stream: it stays open for its whole time, since
its stream is served by large groups, and not by early ones."""


class Linger:
    """When the open group may end early.

    Call ``ended`` for each group, and `delay` to hear how long the present one is to stay open.
    ``now`` is monotonic seconds, ``used`` the processor time of this thread by then.
    """

    __slots__ = ("_cost", "_ended", "_used")

    def __init__(self) -> None:
        self._cost = FIRST_COST
        self._ended = self._used = 0.0

    def delay(self, now: float, used: float) -> float:
        """Seconds until the group may end, if there is nothing to do meanwhile; 0: it may now."""
        spare = (now - self._ended) - (used - self._used)
        missing = SPARE * self._cost - spare
        return max(missing, LEAST_DELAY) if missing > 0 else 0.0

    def ended(self, now: float, used: float, cost: float) -> None:
        """A group ended, which took ``cost`` seconds of processor time."""
        self._cost = KEPT * self._cost + (1 - KEPT) * min(cost, MOST)
        self._ended, self._used = now, used


class EarlyEnd:
    """Looks at the open group until it may end early, and ends it.

    Call ``note`` for what joins the group, ``look_soon`` where it may have become ready to end, and
    `flushed` around what ends it.

    Args:
        later: ``later(seconds, call)`` as of an event loop, whose calls come behind what was read
            by then.
        clock: monotonic seconds.
        processor: seconds of processor time of this thread.
        ready: whether there is an open group, and no reason for it to stay open.
        end: ends it.
    """

    def __init__(
        self,
        later: Callable[[float, Callable[[], None]], object],
        clock: Callable[[], float],
        processor: Callable[[], float],
        ready: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        self._later = later
        self._clock = clock
        self._processor = processor
        self._ready = ready
        self._end = end
        self._linger = Linger()
        self._came = self._seen = 0
        self._looking = False

    def note(self) -> None:
        """Something joined the open group."""
        self._came += 1
        self.look_soon()

    def look_soon(self) -> None:
        """Look as soon as the group may end."""
        if not self._looking and self._ready():
            self._looking = True
            self._later(self._delay(), self._look)

    @contextmanager
    def flushed(self) -> Iterator[None]:
        """Measures what it takes to end a group."""
        before = self._processor()
        yield
        used = self._processor()
        self._linger.ended(self._clock(), used, used - before)

    def _look(self) -> None:
        """That the socket is empty shows when nothing has come from one look to the next, which
        is a turn of the loop later at least."""
        self._looking = False
        if not self._ready():
            return
        if self._came != self._seen or self._delay():
            self._seen = self._came
            self.look_soon()
        else:
            self._end()

    def _delay(self) -> float:
        return self._linger.delay(self._clock(), self._processor())
