"""Messages under numbers that are stored: are they the same, and what is told of them (pure).

All numbers of a channel are stored once they were accepted, from it or from others before. So when
as many are stored as the channel has brought, they are the same ones, and their checksums must
agree. A channel that finishes below what is stored can never be compared; nor can one that begins
above the lowest stored number, and of that only the repeats are counted and told.
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


def ends_short(source: Source, tally: Tally, sent: int, known: RangeSet) -> bool:
    """Whether a channel that finishes with ``sent`` messages says that a sequence ends of which
    more is stored. Not where it begins above what is stored; nor of a sink, which finishes a
    channel when it has too many, and goes on with the same rows on another one."""
    return bool(
        tally.deduped
        and source.floor is None
        and source.start <= known.first
        and source.start + sent in known
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
