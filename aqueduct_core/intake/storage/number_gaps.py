"""What is known of a channel's numbers beside those that are stored: holes, where runs of its
producer begin and end, and which run has stored something last.

*Holes* are logical numbers of which it says that they will never come. The convention: it finishes
its channel and attaches one of the same name anew, whose ``sequence-start`` is above what it had
sent. What lies between the numbers that are stored and the new start is a hole. It is told once, by
an event: that it was told is marked in the spool under a name that no channel can have, and becomes
true with the event. Of a channel of which nothing is known nothing is missing either: it begins
where it begins.

*Runs*: a channel that finishes ends a run at the number behind its last message, and a channel with
the header ``run-start`` belongs to a run that began there. Such numbers are marked in the same way,
and become true with the event of the finish or of the opening. So it is known whether the last run
came to its end, and which numbers it had.

*The owner* is the run that has stored something last (`channel_owners`). It is marked in the record
of its first row, so that no row is ever known without its run. Marks only grow, so the note is one
range from 0 on, of which the last number counts: how many owners there were before, times a power
of two, plus the number of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from aqueduct_core.aqueduct.conventions.positions import MAX_RANGES, ChannelPosition
from aqueduct_core.intake.sessions.channel_owners import RUN_BYTES
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool import SequenceMark

GAPS = "\0gaps"
RUNS = "\0runs"
OWNER = "\0owner"
"""Names of channels hold no NUL (`conventions.read_channel`)."""

ENDS = 8
"""Numbers between runs that a channel keeps apart: sums tell no more runs from each other."""

OWNERS = 1 << (8 * RUN_BYTES)
"""Numbers that a run may have."""


def told(channel: str) -> str:
    """The name under which the told holes of a channel are marked."""
    return channel + GAPS


def runs(channel: str) -> str:
    """The name under which the numbers between the runs of a channel are marked."""
    return channel + RUNS


def owned(channel: str) -> str:
    """The name under which the run that owns a channel is marked."""
    return channel + OWNER


def owner(known: RangeSet) -> int | None:
    """The run that owns a channel of which this is marked; None: it is not known."""
    return (known.stop - 1) % OWNERS if known else None


def owning(producer: str, channel: str, run: int, known: RangeSet) -> SequenceMark:
    """The mark by which a run comes to own a channel of which ``known`` is marked."""
    turn = (known.stop - 1) // OWNERS + 1 if known else 0
    return SequenceMark(producer, owned(channel), 0, turn * OWNERS + run + 1)


def is_channel(name: str) -> bool:
    """Whether marks of this name are of stored messages."""
    return "\0" not in name


def position(
    channel: str, stored: RangeSet, gaps: RangeSet, between: RangeSet, *, floor: int, forgot: bool
) -> ChannelPosition:
    """Where a channel stands, of which these numbers are ``stored``, told as ``gaps``, and known to
    lie ``between`` two runs. Stored numbers below ``floor`` may be forgotten; ``forgot``: so may
    numbers between runs."""
    following = max(stored.stop, gaps.stop, floor)
    begins = between.within(0, following)
    begun = begins[-1][1] - 1 if begins else None
    if begun is None and stored and not floor and not forgot:
        begun = stored.first
    return ChannelPosition(
        channel, following, begun, following in between, tuple(stored)[-MAX_RANGES:]
    )


def holes(start: int, *known: Iterable[Range]) -> list[Range]:
    """What is missing below ``start``. The first of ``known`` are stored numbers, the others count
    as well; what lies below all of them was before our time."""
    numbers = RangeSet(pair for ranges in known for pair in ranges)
    return numbers.missing(numbers.first, start) if numbers else []


def gap(opened: LoggedEvent, hole: Range) -> LoggedEvent:
    """The event of a hole that ``opened`` made known."""
    return replace(opened, kind="gap", first=hole[0], last=hole[1] - 1)


def marks(
    event: LoggedEvent, boundary: int = 0, between: Iterable[Range] = ()
) -> list[SequenceMark]:
    """What becomes true with this event. ``boundary`` as of an `Occurrence`; ``between``: those of
    the channel that are known. Of more than `ENDS` the lowest become one range."""
    producer, channel = event.producer or "", event.channel or ""
    if event.kind == "gap" and event.last is not None:
        return [SequenceMark(producer, told(channel), event.first or 0, event.last + 1)]
    if not boundary:
        return []
    earlier = RangeSet(between).within(0, boundary)
    ranges = [(earlier[0][0], earlier[-ENDS][1])] if len(earlier) > ENDS else []
    return [
        SequenceMark(producer, runs(channel), *each) for each in (*ranges, (boundary, boundary + 1))
    ]
