"""From how far the logs are committed to which messages of a producer are: pure state.

A message is *committed* when every cursor that reads messages has passed the end that its
partition had when the message's group was complete. So one position a group is remembered and no
position a message, a repeat of a stored message is treated as a new one is, and a receipt can only
come late (by a part of a group), never early. Of a repeat whose earlier copy may lie on any
partition, the ends of all of them are passed first.

What is remembered for a channel is bounded: neighbouring groups are joined when there are many of
them (the queries are far behind), which again makes receipts later, never wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

from aqueduct_core.primitives.ranges import Range, RangeSet

MAX_STEPS = 64
"""Positions remembered for one channel before neighbours are joined."""

MAX_TRACKS = 65_536
"""Channels of one connection with messages that are not committed; as many as may be open."""

MAX_PENDING_RANGES = 131_072
"""Ranges of one connection that are not reported yet. Only a peer that leaves holes makes more; of
further messages it gets no receipts."""


class Key(NamedTuple):
    """Whose numbers: those of a named channel under its producer's identity (``id`` None), or
    those on the wire of channel ``id``, where no logical numbers are kept."""

    channel: str
    reliable: bool
    id: int | None = None


Ends: TypeAlias = Mapping[int, int]
"""By partition, how far it has to be committed."""


class _Step:
    """Messages that are committed when each partition in ``upto`` is committed up to there."""

    __slots__ = ("notes", "ranges", "upto")

    def __init__(self) -> None:
        self.upto: dict[int, int] = {}
        self.notes = 0
        self.ranges = RangeSet()

    def covers(self, upto: Ends) -> bool:
        """Whether nothing more has to be passed for these ends."""
        return all(self.upto.get(partition, 0) >= end for partition, end in upto.items())

    def raise_to(self, upto: Ends) -> None:
        for partition, end in upto.items():
            self.upto[partition] = max(self.upto.get(partition, 0), end)


class _Track:
    """The uncommitted messages of one channel, oldest first. ``grain``: notes joined in a step."""

    __slots__ = ("grain", "steps")

    def __init__(self) -> None:
        self.steps: deque[_Step] = deque()
        self.grain = 1

    def note(self, ranges: Iterable[Range], upto: Ends) -> int:
        """How many ranges there are more by this."""
        last = self.steps[-1] if self.steps else None
        if last is None or (last.notes >= self.grain and not last.covers(upto)):
            last = _Step()
            self.steps.append(last)
        before = len(last.ranges)
        last.raise_to(upto)
        last.notes += 1
        for first, stop in ranges:
            last.ranges.add(first, stop)
        more = len(last.ranges) - before
        if len(self.steps) > MAX_STEPS:
            more += self._join()
        return more

    def passed(self, positions: Sequence[int]) -> Iterator[RangeSet]:
        """Take out what is committed at these positions of the partitions."""
        while self.steps and _passed(self.steps[0].upto, positions):
            yield self.steps.popleft().ranges
        if not self.steps:
            self.grain = 1

    def _join(self) -> int:
        """Join neighbours two by two; from now on a step spans twice as much."""
        self.grain *= 2
        steps, more = list(self.steps), 0
        self.steps.clear()
        for i in range(0, len(steps), 2):
            step = steps[i]
            for other in steps[i + 1 : i + 2]:
                before = len(step.ranges) + len(other.ranges)
                for first, stop in other.ranges:
                    step.ranges.add(first, stop)
                step.raise_to(other.upto)
                step.notes += other.notes
                more += len(step.ranges) - before
            self.steps.append(step)
        return more


class CommittedRanges(NamedTuple):
    """Messages that are committed."""

    key: Key
    ranges: tuple[Range, ...]


class CommitTracker:
    """Which messages of one connection are committed, as far as that is still to be reported.

    ``notify`` is called when there is something new to `take`. ``forgotten`` counts the messages
    for which no receipt will come, because a bound was reached.
    """

    def __init__(self, notify: Callable[[], None]) -> None:
        self.forgotten = 0
        self._notify = notify
        self._positions: Sequence[int] = ()
        self._tracks: dict[Key, _Track] = {}
        self._ready: dict[Key, RangeSet] = {}
        self._size = 0

    def note(self, key: Key, ranges: Sequence[Range], upto: Ends) -> None:
        """Messages that are committed when the partitions in ``upto`` are, each up to there."""
        track = self._tracks.get(key)
        if self._size >= MAX_PENDING_RANGES or (track is None and len(self._tracks) >= MAX_TRACKS):
            self.forgotten += sum(stop - first for first, stop in ranges)
            return
        if track is None:
            if _passed(upto, self._positions):
                self._add_ready(key, ranges)
                self._notify()
                return
            track = self._tracks[key] = _Track()
        self._size += track.note(ranges, upto)

    def advance(self, positions: Sequence[int]) -> None:
        """The partitions are committed up to ``positions``."""
        self._positions = positions
        ready = False
        for key, track in list(self._tracks.items()):
            for ranges in track.passed(positions):
                self._size -= len(ranges)
                self._add_ready(key, ranges)
                ready = True
            if not track.steps:
                del self._tracks[key]
        if ready:
            self._notify()

    def take(self, most: int) -> list[CommittedRanges]:
        """The next ranges to report, so many at most; empty when everything was reported."""
        taken: list[CommittedRanges] = []
        while most and self._ready:
            key, ranges = next(iter(self._ready.items()))
            if len(ranges) <= most:
                del self._ready[key]
                some = tuple(ranges)
            else:
                some = tuple(islice(ranges, most))
                for first, stop in some:
                    ranges.remove(first, stop)
            self._size -= len(some)
            most -= len(some)
            taken.append(CommittedRanges(key, some))
        return taken

    def _add_ready(self, key: Key, ranges: Iterable[Range]) -> None:
        known = self._ready.setdefault(key, RangeSet())
        before = len(known)
        for first, stop in ranges:
            known.add(first, stop)
        self._size += len(known) - before


def _passed(upto: Ends, positions: Sequence[int]) -> bool:
    return all(
        end <= (positions[partition] if partition < len(positions) else 0)
        for partition, end in upto.items()
    )


class CommitTrackers:
    """How far each message partition is committed by all cursors, and the trackers of connections.

    Holds: a position never goes back, since what was reported cannot be taken back; a cursor that
    is made later, behind it, does not un-commit anything.
    """

    def __init__(self, partitions: int, cursors: Mapping[str, Sequence[int | None]]) -> None:
        self.positions = [0] * partitions
        self._trackers: dict[CommitTracker, None] = {}
        self.move(cursors)

    def join(self, tracker: CommitTracker) -> None:
        self._trackers[tracker] = None
        tracker.advance(list(self.positions))

    def leave(self, tracker: CommitTracker) -> None:
        self._trackers.pop(tracker, None)

    def move(self, cursors: Mapping[str, Sequence[int | None]]) -> None:
        """Cursors have moved, come or gone. ``None``: the cursor does not read that log. With no
        cursor at all nothing is committed that was not before."""
        moved = False
        for partition, before in enumerate(self.positions):
            ends = [
                end
                for cursor in cursors.values()
                if partition < len(cursor) and (end := cursor[partition]) is not None
            ]
            if ends and min(ends) > before:
                self.positions[partition] = min(ends)
                moved = True
        if moved:
            for tracker in list(self._trackers):
                tracker.advance(list(self.positions))
