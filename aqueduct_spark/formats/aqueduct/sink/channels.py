"""One channel of an attempt on one connection, and the messages on it without an outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from aqueduct_core.aio.halves import Sender
from aqueduct_core.aio.outcomes import Outcome, ReceiverClosed
from aqueduct_core.errors import SinkFailed
from aqueduct_spark.write.batches import Destination, RowAccount, RowRun


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

    Ends by `Sender.finish` or `Sender.cancel`, at the hands of its connection, or by `abandon`.
    Calls ``freed`` with how many bytes have an outcome now, and ``ended`` with its end: None when
    that was in good order.
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
        self._notify_ended = ended
        self._low = start
        self._counted = (0, 0)
        self._in_flight: deque[InFlightBatch] = deque()
        sender.observe(self._settled, self._ended)

    @property
    def clear(self) -> bool:
        """Every message has its outcome."""
        return not self._in_flight

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
        sent = InFlightBatch(run, run.batch.size, self, now)
        self.next = run.stop
        self.progress = max(self.progress, now)
        self._in_flight.append(sent)
        return sent

    def look(self) -> None:
        """Find unreliable messages that were dropped, which nothing else shows."""
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
            RowRun(run.batch.part(low - run.first, high - run.first), low)
            for run in (sent.run for sent in self._in_flight)
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
        while self._in_flight and self._in_flight[0].run.stop <= self._low:
            sent = self._in_flight.popleft()
            sent.done = True
            freed += sent.size
        self.progress = asyncio.get_running_loop().time()
        self._freed(freed)

    def _ended(self) -> None:
        outcome = self.sender.outcome
        self.over = outcome is None or (isinstance(outcome, ReceiverClosed) and not outcome.unacked)
        self.look()
        if self.over and self.destination.reliable and self._low < self.next:
            self.over = False
            outcome = ReceiverClosed(f"channel '{self.destination.channel}'", self.next - self._low)
        self._notify_ended(None if self.over else outcome)
