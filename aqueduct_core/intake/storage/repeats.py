"""Messages under numbers that are stored: are they the same, and what is told of them.

Each one is compared before its ack as long as it is remembered what was stored under its number
(`row_checks`): that is in memory, and bounded. Behind that sums are compared, which are kept with
the data: all numbers of a channel are stored once they were accepted, from it or from others
before. So when as many are stored as the channel has brought, they are the same ones, and their
checksums must agree. That goes for what is stored of the producer's run, where the channel tells
where that began, and of all runs otherwise; when a channel finishes, without what is stored of
later runs. What begins above the lowest of these has no sum to be compared with, and neither has
less than all of them that does not finish: such repeats are counted and told only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from aqueduct_core.aqueduct.conventions.dedupe.checksum import Checks, Content
from aqueduct_core.aqueduct.conventions.dedupe.numbering import MAX_ROWS
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import Numbers
from aqueduct_core.intake.sessions.tally import Tally
from aqueduct_core.intake.storage import number_gaps
from aqueduct_core.intake.storage.arrow import BatchSlice, RowSource, add_contents
from aqueduct_core.intake.storage.event_log import EventCounts, LoggedEvent
from aqueduct_core.intake.storage.open_group import OpenGroup
from aqueduct_core.intake.storage.pending import GroupListener, PendingEvent
from aqueduct_core.intake.storage.row_checks import RowChecks
from aqueduct_core.intake.storage.store import Store

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
        for pieces, checks in group.checked:
            for piece, numbers, each in _by_piece(pieces, checks):
                self._rows.note(piece.source.track, numbers, each)
        if not group.repeats:
            return
        _, checks = add_contents(group.repeats)
        for piece, numbers, each in _by_piece(group.repeats, checks):
            other, unknown = self._rows.compare(piece.source.track, numbers, each)
            if piece.tally is None:
                continue
            if piece.source.by_source:
                piece.tally.repeats.uncompared += unknown
            if other is not None:
                party = group.repeating[id(piece.tally)].party
                _refuse(party, piece.source, piece.tally, f"number {other} has {OTHER_ROW}")
        self._compare_sums(group)

    def _compare_sums(self, group: OpenGroup) -> None:
        for offer in group.repeating.values():
            if offer.tally is not None and offer.numbers is None:
                source, brought = offer.source, offer.tally.content
                stored = self.content(source.producer, source.channel, source.space)
                if stored and stored.messages == brought.messages and stored != brought:
                    _refuse(offer.party, source, offer.tally, OTHER)

    def ends_otherwise(self, occurrence: PendingEvent, tally: Tally) -> bool:
        """Whether a channel with repeats that finishes was refused: it has not finished then.

        One that ends a run below what is stored is certainly not what was stored. But behind a
        hole, and where runs have ended before, another run may have gone on: then what lies below
        must be the same. Of what begins above the lowest stored number of its run nothing is
        certain.
        """
        source, end = occurrence.source, occurrence.boundary
        if source is None or not end:
            return False
        self._flush()
        marks, producer, runs = (
            self._store.sequences,
            source.producer,
            number_gaps.runs(source.channel),
        )
        known = marks.seen(producer, source.channel)
        first, stop = source.space
        stored = self.content(producer, source.channel, (first, stop))
        # earlier releases noted neither sums nor where runs ended
        if stored is None or known.within(first, source.start) or end >= known.stop:
            return tally.refused
        if end in known and end not in marks.seen(producer, runs):
            if marks.floor(producer, runs) <= end:
                _refuse(occurrence.party, source, tally, SHORT)
        elif later := self.content(producer, source.channel, (end, stop)):
            below, brought = stored.minus(later), tally.content
            if below.messages == brought.messages and below != brought:
                _refuse(occurrence.party, source, tally, OTHER)
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

    def channels_among(self, producer: str, first: int, stop: int) -> int:
        """Of how many channels of a producer numbers in ``[first, stop)`` are stored. Where
        they lie below a later batch (so many are never stored): of how many it is remembered."""
        marks = self._store.sequences
        return sum(
            seen.overlaps(first, stop)
            if stop - first <= MAX_ROWS or not seen.covers(first, stop)
            else any(first <= low < stop for low, _ in marks.closed(producer, channel))
            for channel, seen in marks.seen_of(producer)
            if number_gaps.is_channel(channel)
        )


def told(event: LoggedEvent, tally: Tally) -> LoggedEvent:
    """The event of all repeats of a channel, from the one of its end."""
    return replace(
        event,
        kind="repeated",
        reason=None,
        counts=EventCounts(reliable_stored=tally.stored, deduped=tally.deduped),
        first=tally.first,
        last=tally.last,
    )


def _by_piece(
    pieces: list[BatchSlice], checks: Checks
) -> Iterator[tuple[BatchSlice, Numbers | range, Checks]]:
    """Each piece, the logical numbers of its messages, and their checks."""
    at = 0
    for piece in pieces:
        low, high = piece.low, piece.high
        numbers: Numbers | range
        if piece.numbers is None:
            first = piece.source.number(piece.run, low)
            numbers = range(first, first + high - low)
        else:
            numbers = piece.numbers[low:high]
        yield piece, numbers, checks[at : at + high - low]
        at += high - low


def _refuse(party: GroupListener, source: RowSource, tally: Tally, reason: str) -> None:
    if not tally.refused:
        tally.refused = True
        party.unrepeatable(source, tally, reason)
