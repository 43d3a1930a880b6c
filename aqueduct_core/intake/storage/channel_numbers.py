"""What is known of a channel's numbers beside those that are stored: gaps, where runs of its
producer begin and end, and which run has stored something last.

*Gaps* are logical numbers of which it says that they will never come. The convention: it finishes
its channel and attaches one of the same name anew, whose first number is above what it had
sent. What lies between the numbers that are stored and the new start is a gap. It is an event,
once: that it was recorded is marked in the spool under a name that no channel can have, and becomes
true with the event. Of a channel of which nothing is known nothing is missing either: it begins
where it begins.

*Runs*: a channel that finishes ends a run at the number behind its last message, and a channel may
say at which number the run that it belongs to began. Such numbers are marked in the same way,
and become true with the event of the finish or of the opening. So it is known whether the last run
came to its end, and which numbers it had.

*The owner* is the run that has stored something last (`channel_owners`). It is marked in the record
of its first row, so that no row is ever known without its run. Marks only grow, so the note is one
range from 0 on, of which the last number counts: how many owners there were before, times a power
of two, plus the number of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

import pyarrow as pa

from aqueduct_core.intake.storage.batches import ChannelSource
from aqueduct_core.intake.storage.event_log import GAP, LoggedEvent
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool import ContentSum, SequenceMark, Sequences

RUN_BYTES = 6
"""Of the number of a run."""

GAPS = "\0gaps"
RUNS = "\0runs"
OWNER = "\0owner"
"""Behind the name of a channel, which holds no NUL."""

MAX_BOUNDARIES = 8
"""Numbers between runs that a channel keeps apart: sums tell no more runs from each other."""

OWNERS = 1 << (8 * RUN_BYTES)
"""Numbers that a run may have."""


class Store(Protocol):
    """What a group commit needs of the spool; see there."""

    @property
    def group(self) -> int: ...
    @property
    def full(self) -> bool: ...
    @property
    def sequences(self) -> Sequences: ...
    def append(
        self,
        partition: int,
        batch: pa.RecordBatch,
        marks: Sequence[SequenceMark] = (),
        sums: Sequence[ContentSum] = (),
    ) -> tuple[int, int]: ...
    def flush(self) -> bool: ...
    def ends(self) -> list[int]: ...


class NumberPosition(NamedTuple):
    """Where a channel stands.

    All numbers that are stored, or of which it was declared that they will never come, are below
    ``next``. ``begun`` is the number at which the last run that has numbers below ``next`` began,
    None where that is not known. ``finished``: the last run finished the channel at ``next``.
    """

    next: int
    begun: int | None
    finished: bool
    stored: tuple[Range, ...]


class ChannelNumbers:
    """Looks at what the spool and the open group know. ``open_marks`` are those of the group."""

    def __init__(
        self, store: Store, open_marks: Callable[[], Mapping[tuple[str, str], RangeSet]]
    ) -> None:
        self._store = store
        self._open_marks = open_marks

    def known(self, producer: str, name: str) -> RangeSet:
        """What is marked under a name."""
        known = RangeSet(self._store.sequences.seen(producer, name))
        for low, high in self._open_marks().get((producer, name), ()):
            known.add(low, high)
        return known

    def position(self, producer: str, channel: str) -> NumberPosition:
        """Where a channel stands: behind everything of it that was ever accepted."""
        names = channel, gaps_of(channel), runs_of(channel)
        stored, gaps, boundaries = (self.known(producer, name) for name in names)
        floor = self._store.sequences.floor(producer, channel)
        following = max(stored.stop, gaps.stop, floor)
        begins = boundaries.within(0, following)
        begun = begins[-1][1] - 1 if begins else None
        forgot = floor or self._store.sequences.floor(producer, runs_of(channel))
        if begun is None and stored and not forgot:
            begun = stored.first
        return NumberPosition(following, begun, following in boundaries, tuple(stored))

    def owner(self, producer: str, channel: str) -> int | None:
        """The number of the run that has stored something of a channel last; None: not known."""
        return _owner(self.known(producer, owner_of(channel)))

    def owned(self, source: ChannelSource, run: int) -> SequenceMark | None:
        """The mark by which a run comes to own a channel; None: it does already."""
        producer, name = source.producer, owner_of(source.channel)
        known = self._open_marks().get((producer, name)) or self._store.sequences.seen(
            producer, name
        )
        if _owner(known) == run:
            return None
        turn = (known.stop - 1) // OWNERS + 1 if known else 0
        return SequenceMark(producer, name, 0, turn * OWNERS + run + 1)

    def gaps_before(self, opened: LoggedEvent, start: int) -> list[LoggedEvent]:
        """The events of what a channel that goes on at ``start`` left out below."""
        producer, channel = opened.producer or "", opened.channel or ""
        stored, gaps = (self.known(producer, name) for name in (channel, gaps_of(channel)))
        return [
            replace(opened, kind=GAP, first=first, last=stop - 1)
            for first, stop in missing_below(start, stored, gaps)
        ]

    def marks_of(self, event: LoggedEvent, boundary: int) -> list[SequenceMark]:
        """What becomes true with an event. ``boundary``: a number between two runs that it made
        known, or 0. Of more than `MAX_BOUNDARIES` the lowest become one range."""
        producer, channel = event.producer or "", event.channel or ""
        if event.kind == GAP and event.last is not None:
            return [SequenceMark(producer, gaps_of(channel), event.first or 0, event.last + 1)]
        if not boundary:
            return []
        name = runs_of(channel)
        earlier = self.known(producer, name).within(0, boundary)
        ranges: list[Range] = []
        if len(earlier) > MAX_BOUNDARIES:
            ranges.append((earlier[0][0], earlier[-MAX_BOUNDARIES][1]))
        return [SequenceMark(producer, name, *each) for each in (*ranges, (boundary, boundary + 1))]


def gaps_of(channel: str) -> str:
    """The name under which the recorded gaps of a channel are marked."""
    return channel + GAPS


def runs_of(channel: str) -> str:
    """The name under which the numbers between the runs of a channel are marked."""
    return channel + RUNS


def owner_of(channel: str) -> str:
    """The name under which the run that owns a channel is marked."""
    return channel + OWNER


def is_channel(name: str) -> bool:
    """Whether marks of this name are of stored messages."""
    return "\0" not in name


def missing_below(start: int, stored: Iterable[Range], gaps: Iterable[Range]) -> list[Range]:
    """What is neither stored nor a known gap below ``start``; what lies below all of these was
    before our time."""
    numbers = RangeSet([*stored, *gaps])
    return numbers.missing(numbers.first, start) if numbers else []


def _owner(known: RangeSet) -> int | None:
    return (known.stop - 1) % OWNERS if known else None
