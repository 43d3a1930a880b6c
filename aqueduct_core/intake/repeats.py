"""Messages under numbers that are stored: are they the same, and what is told of them (pure).

All numbers of a channel are stored once they were accepted, from it or from others before. So when
as many are stored as the channel has brought, they are the same ones, and their checksums must
agree. A channel that begins above the lowest stored number is never compared, and neither is one of
several runs that stand one behind the other: of these the repeats are counted and told.
"""

from __future__ import annotations

from dataclasses import replace

from aqueduct_core.intake.events import Event, EventCounts
from aqueduct_core.intake.records import Source
from aqueduct_core.intake.tally import Tally
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool import ContentSum

OTHER = "they have other content than what is stored"
SHORT = "the channel ends where more is stored"


def differ(stored: ContentSum, tally: Tally) -> bool:
    """Whether a channel certainly has other content than what is stored of its space."""
    brought = tally.content
    return stored.total not in (None, brought.total) and stored.messages == brought.messages


def ends_short(
    source: Source, tally: Tally, end: int, known: RangeSet, boundaries: RangeSet
) -> bool:
    """Whether a channel that finishes before number ``end`` says that a run ends of which more is
    stored, so that it never can be compared.

    ``end`` 0: it says no such thing, as that of a sink, which finishes a channel when it has too
    many and goes on with the same rows on another one. Behind a hole, and at ``boundaries`` (where
    runs have ended before), another run may have gone on; and of a channel that begins above what
    is stored nothing is known.
    """
    begins = bool(end and tally.deduped) and source.start <= known.first
    return begins and end in known and end not in boundaries


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
