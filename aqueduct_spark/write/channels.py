"""One channel of an attempt on one line, and the messages on it that have no outcome."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from aqueduct_core.aio.halves import Sender
from aqueduct_core.aio.outcomes import Outcome, ReceiverClosed
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_spark.write.destinations import Destination
from aqueduct_spark.write.rows import Portion


@dataclass(slots=True, eq=False)
class Flight:
    """A portion on its way. ``first`` is the row of its destination that it begins with, ``stop``
    the number on the wire behind its last message."""

    portion: Portion
    first: int
    size: int
    start: int
    stop: int
    channel: Channel
    since: float
    done: bool = False


@dataclass(slots=True)
class Tally:
    """What became of messages; ``lost`` are unreliable ones, of ``unreliable``."""

    sent: int = 0
    acked: int = 0
    lost: int = 0
    unreliable: int = 0
    channels: int = 0

    def add(self, other: Tally) -> None:
        self.sent += other.sent
        self.acked += other.acked
        self.lost += other.lost
        self.unreliable += other.unreliable
        self.channels += other.channels


class Channel:
    """Rows ``[start, next)`` of a destination.

    Ends by `Sender.finish` or `Sender.cancel`, at the hands of the lane. Tells ``freed`` how many
    bytes have an outcome now, and ``ended`` its end: None when that was in good order.
    """

    def __init__(
        self,
        destination: Destination,
        sender: Sender,
        start: int,
        freed: Callable[[int], None],
        ended: Callable[[Outcome | None], None],
    ) -> None:
        self.destination = destination
        self.sender = sender
        self.start = start
        self.next = start
        self.progress = 0.0
        self._freed = freed
        self._tell = ended
        self._acked = RangeSet()
        self._low = 0
        self._flights: deque[Flight] = deque()
        sender.observe(self._settled, self._ended)

    @property
    def clear(self) -> bool:
        """Every message has its outcome."""
        return not self._flights

    def launch(self, portion: Portion, first: int, now: float) -> Flight:
        """Note a portion that is about to be sent."""
        start = first - self.start
        flight = Flight(
            portion, first, portion.size, start, start + len(portion.payloads), self, now
        )
        self.next = first + len(portion.payloads)
        self.progress = max(self.progress, now)
        self._flights.append(flight)
        return flight

    def look(self) -> None:
        """Find unreliable messages that were dropped, which nobody tells."""
        if not self.destination.reliable:
            self._settle()

    def unsettled(self) -> list[tuple[Portion, int]]:
        """What may not have arrived, with its first row, in order. Nothing of an unreliable
        channel: its messages go at most once."""
        if not self.destination.reliable:
            return []
        return [
            (flight.portion.part(low - flight.start, high - flight.start), self.start + low)
            for flight in self._flights
            for low, high in self._acked.missing(flight.start, flight.stop)
        ]

    def tally(self) -> Tally:
        """What became of the messages until now; unreliable ones without an outcome are lost."""
        counts = self.sender.statistics
        if self.destination.reliable:
            return Tally(self._acked.count, self._acked.count, channels=1)
        return Tally(counts.sent, counts.acked, counts.sent - counts.acked, counts.sent, 1)

    def _settled(self, reliable: bool, first: int, stop: int, acked: bool) -> None:
        if acked and self.destination.reliable:
            self._acked.add(first, stop)
        self._settle()

    def _settle(self) -> None:
        if self.destination.reliable:
            self._low = self._acked.lowest_missing(self._low)
        else:
            counts = self.sender.statistics
            self._low = counts.acked + counts.nacked
        freed = 0
        while self._flights and self._flights[0].stop <= self._low:
            flight = self._flights.popleft()
            flight.done = True
            freed += flight.size
        self.progress = asyncio.get_running_loop().time()
        self._freed(freed)

    def _ended(self) -> None:
        outcome = self.sender.outcome
        good = isinstance(outcome, ReceiverClosed) and not outcome.unacked
        self._tell(None if good else outcome)
