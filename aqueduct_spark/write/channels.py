"""One channel of an attempt on one line, and the messages on it that have no outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from aqueduct_core.aio.halves import Sender
from aqueduct_core.aio.outcomes import Outcome, ReceiverClosed
from aqueduct_core.errors import SinkFailed
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_spark.write.destinations import Destination
from aqueduct_spark.write.rows import RowBatch


class RowRun(NamedTuple):
    """Messages that follow each other; the first is row ``first`` of their destination."""

    portion: RowBatch
    first: int

    @property
    def destination(self) -> Destination:
        return self.portion.destination

    @property
    def stop(self) -> int:
        return self.first + len(self.portion.payloads)


class RowAccount:
    """What became of the rows of one destination, on whatever connections they went.

    Holds: rows ``[0, given)`` were taken in. Those of a reliable destination are acked by their
    number, so that none counts twice; unreliable ones have no number that stays, and are counted.
    """

    __slots__ = ("_acked_count", "acked_rows", "given", "lost")

    def __init__(self) -> None:
        self.given = 0
        self.acked_rows = RangeSet()
        self.lost = 0
        self._acked_count = 0

    @property
    def acked(self) -> int:
        return self.acked_rows.count + self._acked_count

    @property
    def settled(self) -> bool:
        """Every row given has its outcome, once."""
        numbered = self.acked_rows.count
        return self.acked + self.lost == self.given and self.acked_rows.covers(0, numbered)

    def take(self, count: int) -> int:
        """``count`` more rows; the number of the first one."""
        first, self.given = self.given, self.given + count
        return first

    def count(self, acked: int, lost: int) -> None:
        """The outcome of so many unreliable rows."""
        self._acked_count += acked
        self.lost += lost


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """A run on its way."""

    run: RowRun
    size: int
    channel: AttemptChannel
    since: float
    done: bool = False


class AttemptChannel:
    """Rows ``[start, next)`` of a destination: its message ``n`` is row ``start + n``.

    Ends by `Sender.finish` or `Sender.cancel`, at the hands of the lane, or by `abandon`. Tells
    ``freed`` how many bytes have an outcome now, and ``ended`` its end: None when that was in good
    order.
    """

    def __init__(
        self,
        destination: Destination,
        account: RowAccount,
        sender: Sender,
        start: int,
        freed: Callable[[int], None],
        ended: Callable[[Outcome | None], None],
    ) -> None:
        self.destination = destination
        self.sender = sender
        self.next = start
        self.progress = 0.0
        self.over = False
        """It ended in good order."""
        self._account = account
        self._start = start
        self._freed = freed
        self._tell = ended
        self._low = start
        self._counted = (0, 0)
        self._flights: deque[InFlightBatch] = deque()
        sender.observe(self._settled, self._ended)

    @property
    def clear(self) -> bool:
        """Every message has its outcome."""
        return not self._flights

    def launch(self, run: RowRun, now: float) -> InFlightBatch:
        """Note a run that is about to be sent.

        Raises:
            SinkFailed: ROWS_MISSING for a run that does not begin where the last one ended; it
                would be sent under the numbers of other rows.
        """
        if run.first != self.next:
            raise SinkFailed(
                "ROWS_MISSING",
                f"Channel '{self.destination.channel}' is at row {self.next}, and row {run.first} "
                "was about to be sent on it",
                "This is a fault of the sink: report it; the next attempt sends the rows again",
            )
        flight = InFlightBatch(run, run.portion.size, self, now)
        self.next = run.stop
        self.progress = max(self.progress, now)
        self._flights.append(flight)
        return flight

    def look(self) -> None:
        """Find unreliable messages that were dropped, which nobody tells."""
        if not self.destination.reliable:
            self._settle()

    def abandon(self) -> list[RowRun]:
        """The connection is lost: the rows to be sent once more, in order.

        Of an unreliable channel those that never left: the others go at most once, and are lost
        where their outcome is not known.
        """
        if self.destination.reliable:
            pieces = self._account.acked_rows.missing
        else:
            self._settle()
            never_sent = self._start + self.sender.statistics.sent
            self._account.count(0, never_sent - self._low)

            def pieces(first: int, stop: int) -> list[tuple[int, int]]:
                return [(max(first, never_sent), stop)] if stop > never_sent else []

        return [
            RowRun(run.portion.part(low - run.first, high - run.first), low)
            for run in (flight.run for flight in self._flights)
            for low, high in pieces(run.first, run.stop)
        ]

    def _settled(self, reliable: bool, first: int, stop: int, acked: bool) -> None:
        if acked and self.destination.reliable:
            self._account.acked_rows.add(self._start + first, self._start + stop)
        self._settle()

    def _settle(self) -> None:
        if self.destination.reliable:
            self._low = self._account.acked_rows.lowest_missing(self._low)
        else:
            counts = self.sender.statistics
            acked, lost = self._counted
            self._account.count(counts.acked - acked, counts.nacked - lost)
            self._counted = (counts.acked, counts.nacked)
            self._low = self._start + counts.acked + counts.nacked
        freed = 0
        while self._flights and self._flights[0].run.stop <= self._low:
            flight = self._flights.popleft()
            flight.done = True
            freed += flight.size
        self.progress = asyncio.get_running_loop().time()
        self._freed(freed)

    def _ended(self) -> None:
        outcome = self.sender.outcome
        self.over = outcome is None or (isinstance(outcome, ReceiverClosed) and not outcome.unacked)
        self.look()
        if self.over and self.destination.reliable and self._low < self.next:
            self.over = False
            outcome = ReceiverClosed(f"channel '{self.destination.channel}'", self.next - self._low)
        self._tell(None if self.over else outcome)
