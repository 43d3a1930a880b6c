"""Events that are summed up: numbers that were nacked, connections that were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from aqueduct_core.intake.storage.batches import ChannelSource
from aqueduct_core.intake.storage.event_log import NACKED, LoggedEvent
from aqueduct_core.intake.storage.pending import GroupListener, PendingEvent
from aqueduct_core.primitives.ranges import RangeSet

PERIOD = 10.0
"""Seconds over which refused connections, and refused channels of others, are counted."""
MAX_REJECTED = 16
"""Of them recorded one by one: some 60 MB of events a day, whoever comes; of
more only their number."""


@dataclass(slots=True)
class _PendingNacks:
    listener: GroupListener
    source: ChannelSource
    timestamp: int
    numbers: RangeSet = field(default_factory=RangeSet)


class Nacks:
    """Neighbouring runs of one channel are one event, until they are taken: with the next group, or
    before the end of the channel is recorded.

    Holds ranges: a channel whose messages have no room at all is one range, however long.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], _PendingNacks] = {}

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(
        self, listener: GroupListener, source: ChannelSource, first: int, stop: int, timestamp: int
    ) -> None:
        key = source.connection, source.channel_id
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _PendingNacks(listener, source, timestamp)
        pending.numbers.add(first, stop)

    def take(self, connection: str, channel: int | None) -> list[PendingEvent]:
        """The events of one channel."""
        if channel is None:
            return []
        pending = self._pending.pop((connection, channel), None)
        return [] if pending is None else _events(pending)

    def take_all(self) -> list[PendingEvent]:
        all_pending, self._pending = self._pending, {}
        return [event for pending in all_pending.values() for event in _events(pending)]


def _events(pending: _PendingNacks) -> list[PendingEvent]:
    source = pending.source
    return [
        PendingEvent(
            pending.listener,
            LoggedEvent(
                NACKED,
                pending.timestamp,
                source.connection,
                source.producer,
                source.channel,
                source.channel_id,
                *source.parent,
                first=first,
                last=stop - 1,
            ),
        )
        for first, stop in pending.numbers
    ]


class Rejections:
    """Whoever tries tokens in a loop must not fill the disk: of the refusals of a `PERIOD` the
    first `MAX_REJECTED` are events of their own, of the others their number is one, at its end.
    Those of producers that were admitted before are counted apart from those of strangers.

    Args:
        later: ``later(seconds, call)`` as of an event loop.
        notify: called when there is something to `take`.
    """

    def __init__(
        self, later: Callable[[float, Callable[[], None]], object], notify: Callable[[], None]
    ) -> None:
        self._later = later
        self._notify = notify
        self._timed = False
        self._single: Counter[bool] = Counter()
        self._more: Counter[bool] = Counter()
        self._last: dict[bool, PendingEvent] = {}
        self._summaries: list[PendingEvent] = []

    @property
    def ready(self) -> bool:
        """Whether there is something to `take`."""
        return bool(self._summaries)

    def single(self, rejected: PendingEvent) -> bool:
        """Whether this one is an event of its own."""
        if not self._timed:
            self._timed = True
            self._later(PERIOD, self.over)
        known = rejected.event.producer is not None
        self._single[known] += 1
        if self._single[known] <= MAX_REJECTED:
            return True
        self._more[known] += 1
        self._last[known] = rejected
        return False

    def over(self) -> None:
        """The period is over, or the end has come: what was left out becomes an event."""
        self._timed = False
        for known, last in self._last.items():
            more = self._more[known]
            reason = f"{more} more were refused, the last one: {last.event.reason}"
            self._summaries.append(last._replace(event=replace(last.event, reason=reason)))
        for counts in (self._single, self._more, self._last):
            counts.clear()
        if self._summaries:
            self._notify()

    def take(self) -> list[PendingEvent]:
        """The events of those that were left out."""
        summaries, self._summaries = self._summaries, []
        return summaries
