"""Messages under numbers that are stored: are they the same, and what is recorded of them.

Each one is compared before its ack as long as it is remembered what was stored under its number
(`row_checks`): that is in memory, and bounded. Behind that sums are compared, which are kept with
the data: all numbers of a channel are stored once they were accepted, from it or from others
before. So when as many are stored as the channel has brought, they are the same ones, and their
checksums must agree. That goes for what is stored of the producer's run, where the channel says
where that began, and of all runs otherwise; when a channel finishes, without what is stored of
later runs. What begins above the lowest of these has no sum to be compared with, and neither has
less than all of them that does not finish: such repeats are counted and recorded only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from aqueduct_core.engine.checksum import Checks, Content
from aqueduct_core.intake.storage.batches import (
    BatchSlice,
    ChannelSource,
    ChannelTally,
    add_contents,
)
from aqueduct_core.intake.storage.channel_numbers import Store, is_channel, runs_of
from aqueduct_core.intake.storage.event_log import DEDUPED, REPEATED, STORED, LoggedEvent
from aqueduct_core.intake.storage.open_group import OpenGroup
from aqueduct_core.intake.storage.pending import GroupListener, PendingEvent, notify
from aqueduct_core.intake.storage.row_checks import RowChecks
from aqueduct_core.primitives.ranges import Numbers, Range, RangeSet

OTHER_ROW = "other content than what is stored"
OTHER = "they have other content than what is stored"
SHORT = "the channel ends where more is stored"


class Repeats:
    """Compares what channels bring with what is stored, and says what is. ``flush`` hands all that
    was accepted to ``store``."""

    def __init__(self, store: Store, flush: Callable[[], None]) -> None:
        self._store = store
        self._flush = flush
        self._rows = RowChecks()

    def compare(self, group: OpenGroup) -> None:
        """The group was handed to the spool: refuse channels that have brought other content than
        what is stored. None of what this group has of them was acked."""
        for slices, checks in group.checked:
            for part, numbers, each in _by_slice(slices, checks):
                self._rows.note(part.source.track, numbers, each)
        if not group.repeats:
            return
        _, checks = add_contents(group.repeats)
        for part, numbers, each in _by_slice(group.repeats, checks):
            others, unknown = self._rows.compare(part.source.track, numbers, each)
            if part.tally is None:
                continue
            if part.source.by_source:
                part.tally.repeats.uncompared += unknown
            if others:
                part.tally.others = others
                listener = group.repeating[id(part.tally)].listener
                _refuse(listener, part.source, part.tally, f"number {others[0]} has {OTHER_ROW}")
        self._compare_sums(group)

    def _compare_sums(self, group: OpenGroup) -> None:
        for pending in group.repeating.values():
            if pending.tally is not None and pending.numbers is None:
                source, brought = pending.source, pending.tally.content
                stored = self.content(source.producer, source.channel, source.space)
                if stored and stored.messages == brought.messages and stored != brought:
                    _refuse(pending.listener, source, pending.tally, OTHER)

    def ends_otherwise(self, ended: PendingEvent, tally: ChannelTally) -> bool:
        """Whether a channel with repeats that finishes was refused: it has not finished then.

        One that ends a run below what is stored is certainly not what was stored. But behind a
        hole, and where runs have ended before, another run may have gone on: then what lies below
        must be the same. Of what begins above the lowest stored number of its run nothing is
        certain.
        """
        source, end = ended.source, ended.boundary
        if source is None or not end:
            return False
        self._flush()
        marks, producer, runs = self._store.sequences, source.producer, runs_of(source.channel)
        known = marks.seen(producer, source.channel)
        first, stop = source.space
        stored = self.content(producer, source.channel, (first, stop))
        # earlier releases noted neither sums nor where runs ended
        if stored is None or known.within(first, source.start) or end >= known.stop:
            return tally.refused
        if end in known and end not in marks.seen(producer, runs):
            if marks.floor(producer, runs) <= end:
                _refuse(ended.listener, source, tally, SHORT)
        elif later := self.content(producer, source.channel, (end, stop)):
            below, brought = stored.minus(later), tally.content
            if below.messages == brought.messages and below != brought:
                _refuse(ended.listener, source, tally, OTHER)
        return tally.refused

    def content(self, producer: str, channel: str, space: tuple[int, int]) -> Content | None:
        """Of what the spool was handed of these numbers; None: nothing, or it is not known."""
        stored = self._store.sequences.content(producer, channel, *space)
        if not stored.messages or stored.total is None:
            return None
        return Content(stored.messages, stored.total)

    def below_later(self, producer: str, channel: str, space: tuple[int, int]) -> bool:
        """Whether all these numbers count as stored, as those below a later batch do."""
        return self._store.sequences.seen(producer, channel).covers(*space)

    def seen_of(self, producer: str) -> Iterator[tuple[str, RangeSet]]:
        """The channels of a producer with the numbers of each that are stored."""
        marks = self._store.sequences.seen_of(producer)
        return ((channel, seen) for channel, seen in marks if is_channel(channel))

    def closed(self, producer: str, channel: str) -> Iterable[Range]:
        """Numbers of a channel that a later floor closed."""
        return self._store.sequences.closed(producer, channel)


def repeated_event(event: LoggedEvent, tally: ChannelTally) -> LoggedEvent:
    """The event of all repeats of a channel, from the one of its end."""
    return replace(
        event,
        kind=REPEATED,
        reason=None,
        counts={STORED: tally.stored, DEDUPED: tally.deduped},
        first=tally.first,
        last=tally.last,
    )


def _by_slice(
    slices: list[BatchSlice], checks: Checks
) -> Iterator[tuple[BatchSlice, Numbers | range, Checks]]:
    """Each slice, the logical numbers of its messages, and their checks."""
    at = 0
    for part in slices:
        low, high = part.low, part.high
        numbers: Numbers | range
        if part.numbers is None:
            first = part.source.number(part.batch, low)
            numbers = range(first, first + high - low)
        else:
            numbers = part.numbers[low:high]
        yield part, numbers, checks[at : at + high - low]
        at += high - low


def _refuse(
    listener: GroupListener, source: ChannelSource, tally: ChannelTally, reason: str
) -> None:
    if not tally.refused:
        tally.refused = True
        notify(listener, listener.unrepeatable, source, tally, reason)
