"""Messages under numbers that are stored: are they the same, and what is told of them.

All numbers of a channel are stored once they were accepted, from it or from others before. So when
as many are stored as the channel has brought, they are the same ones, and their checksums must
agree. That goes for what is stored of the producer's run, where the channel tells where that began,
and of all runs otherwise; when a channel finishes, without what is stored of later runs. A channel
that begins above the lowest of these is never compared: its repeats are counted and told. Messages
that are known by their source are compared one by one (`row_checks`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from aqueduct_core.dedupe.checksum import Content, of_each
from aqueduct_core.dedupe.numbering import MAX_ROWS
from aqueduct_core.dedupe.source_rows import Numbers
from aqueduct_core.intake import declared
from aqueduct_core.intake.events import Event, EventCounts
from aqueduct_core.intake.offers import Occurrence, Party
from aqueduct_core.intake.open_group import OpenGroup
from aqueduct_core.intake.records import Piece, Source, add_contents
from aqueduct_core.intake.row_checks import RowChecks
from aqueduct_core.intake.store import Store
from aqueduct_core.intake.tally import Tally

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
        """The group was handed to the spool: refuse channels that have brought all that is stored,
        with other content. None of what this group has of them was acked."""
        add_contents([piece for piece in group.repeats if piece.numbers is None])
        for offer in group.repeating.values():
            if offer.tally is not None and offer.numbers is None:
                source, brought = offer.source, offer.tally.content
                stored = self.content(source.producer, source.channel, source.space)
                if stored and stored.messages == brought.messages and stored != brought:
                    _refuse(offer.party, source, offer.tally, OTHER)
        self._compare_rows(group)

    def _compare_rows(self, group: OpenGroup) -> None:
        for piece in group.rows:
            self._rows.note(*_contents(piece))
        for piece in group.repeats:
            if piece.numbers is not None and piece.tally is not None:
                other, unknown = self._rows.compare(*_contents(piece))
                piece.tally.repeats.uncompared += unknown
                if other is not None:
                    party = group.repeating[id(piece.tally)].party
                    _refuse(party, piece.source, piece.tally, f"number {other} has {OTHER_ROW}")

    def ends_otherwise(self, occurrence: Occurrence, tally: Tally) -> bool:
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
        marks, producer, runs = self._store.marks, source.producer, declared.runs(source.channel)
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
        stored = self._store.marks.content(producer, channel, *space)
        if not stored.messages or stored.total is None:
            return None
        return Content(stored.messages, stored.total)

    def below_later(self, producer: str, channel: str, space: tuple[int, int]) -> bool:
        """Whether all these numbers count as stored, as those below a later batch do."""
        return self._store.marks.seen(producer, channel).covers(*space)

    def channels_among(self, producer: str, first: int, stop: int) -> int:
        """Of how many channels of a producer numbers in ``[first, stop)`` are stored. Where
        they lie below a later batch (so many are never stored): of how many it is remembered."""
        marks = self._store.marks
        return sum(
            seen.overlaps(first, stop)
            if stop - first <= MAX_ROWS or not seen.covers(first, stop)
            else any(first <= low < stop for low, _ in marks.closed(producer, channel))
            for channel, seen in marks.seen_of(producer)
            if declared.is_channel(channel)
        )


def told(event: Event, tally: Tally) -> Event:
    """The event of all repeats of a channel, from the one of its end."""
    return replace(
        event,
        kind="repeated",
        reason=None,
        counts=EventCounts(reliable_stored=tally.stored, deduped=tally.deduped),
        first=tally.first,
        last=tally.last,
    )


def _contents(piece: Piece) -> tuple[tuple[str, str], Numbers, list[int]]:
    """Whose rows they are, their places in the source, and what they hold."""
    run, low, high = piece.run, piece.low, piece.high
    assert piece.numbers is not None
    return piece.source.track, piece.numbers[low:high], of_each(run, low, high)


def _refuse(party: Party, source: Source, tally: Tally, reason: str) -> None:
    if not tally.refused:
        tally.refused = True
        party.unrepeatable(source, tally, reason)
