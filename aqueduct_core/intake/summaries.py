"""Events that are summed up: numbers that were nacked, connections that were refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from aqueduct_core.intake.events import Event
from aqueduct_core.intake.offers import Occurrence, Party
from aqueduct_core.intake.records import Source
from aqueduct_core.primitives.ranges import RangeSet

MAX_REJECTED = 64
"""Refused connections told one by one in a group; of more only their number is told."""


@dataclass(slots=True)
class _Pending:
    party: Party
    source: Source
    timestamp: int
    numbers: RangeSet = field(default_factory=RangeSet)


class Nacks:
    """Neighbouring runs of one channel are one event, until they are taken: with the next group, or
    before the end of the channel is told.

    Holds ranges: a channel whose messages have no room at all is one range, however long.
    """

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], _Pending] = {}

    def __bool__(self) -> bool:
        return bool(self._pending)

    def add(self, party: Party, source: Source, first: int, stop: int, timestamp: int) -> None:
        key = source.connection, source.channel_id
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _Pending(party, source, timestamp)
        pending.numbers.add(first, stop)

    def take(self, connection: str, channel: int | None) -> list[Occurrence]:
        """The events of one channel."""
        if channel is None:
            return []
        pending = self._pending.pop((connection, channel), None)
        return [] if pending is None else _events(pending)

    def take_all(self) -> list[Occurrence]:
        all_pending, self._pending = self._pending, {}
        return [event for pending in all_pending.values() for event in _events(pending)]


def _events(pending: _Pending) -> list[Occurrence]:
    source = pending.source
    return [
        Occurrence(
            pending.party,
            Event(
                "nacked",
                pending.timestamp,
                source.connection,
                source.producer,
                source.channel,
                source.channel_id,
                source.parent_channel_id,
                source.parent_message,
                first=first,
                last=stop - 1,
            ),
        )
        for first, stop in pending.numbers
    ]


class Rejections:
    """Whoever tries tokens in a loop must not fill the log: of a group's refusals the first
    `MAX_REJECTED` are events of their own, of the others their number is one."""

    def __init__(self) -> None:
        self.more = 0
        self._told = 0
        self._last: Occurrence | None = None

    def single(self, occurrence: Occurrence) -> bool:
        """Whether this one is an event of its own."""
        self._told += 1
        if self._told <= MAX_REJECTED:
            return True
        self.more += 1
        self._last = occurrence
        return False

    def take(self) -> list[Occurrence]:
        """What is to be told of the others; a new count begins."""
        self._told = 0
        if self._last is None:
            return []
        last, more = self._last, self.more
        self._last, self.more = None, 0
        reason = f"{more} more connections were refused, the last one: {last.event.reason}"
        return [last._replace(event=replace(last.event, reason=reason))]
