"""Which numbers of each track are stored already, and what their content adds up to."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool.format.settings import SPARSE, ContentSum, SequenceMark, SpoolSettings

TrackSnapshot = Sequence[Sequence[Any]]
"""(source, name, [first, stop, first, stop, …]), the longest unused first; with a fourth
entry, the floor, where something of the track was forgotten."""

_Track = tuple[str, str]

MAX_SUMS = 8
"""Sums of a track; where there are more, the two that begin lowest become one."""

MAX_CLOSED = 4
"""Sums of a track over ranges that are stored wholly; those that begin lowest go first."""

SPARSE_FACTOR = 8
"""Entries of a sparse track for each range that another one may have: some four million numbers
with holes."""
MODULUS = 1 << 64
"""Sums are kept modulo this."""


class Sequences:
    """Bounded memory of what is stored; what is forgotten can only be stored twice, never lost.

    Holds at most ``max_tracks`` tracks (the one not used for longest goes first), ``max_ranges``
    ranges of each (the lowest go first) and ``max_total_ranges`` over all. ``forgotten`` counts
    the ranges let go. Below its *floor* a track has forgotten something; floors are kept for
    twice ``max_tracks``, those of forgotten ones included.

    A track whose name ends in `SPARSE` is remembered number by number (`NumberSet`).

    The content of a track is kept as sums over ranges that the caller chooses; each
    number counts in one of them. A sum counts what it adds up, so what sums say of a range is the
    whole of it exactly where that many of its numbers are stored. When a mark covers the range of
    a sum wholly, as that of a later batch does, the sum is closed: it tells for good what was
    stored of the range by then. The last ``MAX_CLOSED`` are kept until something of the range is
    forgotten.
    """

    def __init__(self, settings: SpoolSettings) -> None:
        self._settings = settings
        self._tracks: OrderedDict[_Track, RangeSet | NumberSet] = OrderedDict()
        self._names: dict[str, dict[str, None]] = {}
        self._floors: OrderedDict[_Track, int] = OrderedDict()
        self._sums: dict[_Track, dict[Range, ContentSum]] = {}
        self._closed: dict[_Track, dict[Range, ContentSum]] = {}
        self._ranges = 0
        self._sparse = 0
        self.forgotten = 0

    def seen(self, source: str, name: str) -> RangeSet:
        """The stored numbers of one track. Live: read it, do not change it."""
        track = self._used(source, name)
        return track if isinstance(track, RangeSet) else RangeSet()

    def rows(self, source: str, name: str) -> NumberSet:
        """The same of a track whose name ends in `SPARSE`."""
        track = self._used(source, name)
        return track if isinstance(track, NumberSet) else NumberSet()

    def _used(self, source: str, name: str) -> RangeSet | NumberSet | None:
        track = self._tracks.get((source, name))
        if track is not None:
            self._tracks.move_to_end((source, name))
        return track

    def seen_of(self, source: str) -> Iterator[tuple[str, RangeSet]]:
        """The stored numbers of all tracks of a source but sparse ones. Live, as `seen`."""
        for name in self._names.get(source, ()):
            track = self._tracks[source, name]
            if isinstance(track, RangeSet):
                yield name, track

    def floor(self, source: str, name: str) -> int:
        """Numbers below it may be stored though `seen` does not say so, as they were forgotten:
        repeats of them are not recognised. 0: nothing was forgotten (or so long ago that it is not
        known)."""
        return self._floors.get((source, name), 0) if self._floors else 0

    def content(self, source: str, name: str, first: int, stop: int) -> ContentSum:
        """What is stored of the numbers ``[first, stop)`` of a track, as far as it was added
        with sums of exactly this range; ``total`` is None where that is not all of it, or something
        was forgotten. Of a range whose sum is closed: what was stored before."""
        closed = self._closed.get((source, name), {}).get((first, stop))
        if closed is not None:
            return closed
        stored = sum(b - a for a, b in self.seen(source, name).within(first, stop))
        sums = self._sums.get((source, name), {}).values()
        inside = [each for each in sums if first <= each.first and each.stop <= stop]
        totals = [each.total for each in inside if each.total is not None]
        whole = len(totals) == len(inside) and sum(each.messages for each in inside) == stored
        known = sum(totals) % MODULUS if inside and whole else None
        return ContentSum(source, name, first, stop, stored, known)

    def closed(self, source: str, name: str) -> Iterable[Range]:
        """The ranges of closed sums of a track. Live."""
        return self._closed.get((source, name), ())

    def add(self, marks: Iterable[SequenceMark], sums: Sequence[ContentSum] = ()) -> None:
        settings = self._settings
        for each in sums:
            self._sum(each)
        for source, name, first, stop in marks:
            key = (source, name)
            track = self._tracks.get(key)
            if track is None:
                track = self._tracks[key] = self._new(name)
                self._names.setdefault(source, {})[name] = None
            else:
                self._tracks.move_to_end(key)
            before = len(track)
            if isinstance(track, NumberSet):
                track.merge(first, stop)
                most = self._share
            else:
                if key in self._sums:
                    self._close_sums(key, track, first, stop, sums)
                track.add(first, stop)
                most = settings.max_ranges
            if len(track) > most:
                over = len(track) - most
                if isinstance(track, NumberSet):
                    over += most // 8  # finding the lowest costs as much as all of them
                self.forgotten += over
                self._raise_floor(key, _drop_lowest(track, over))
            self._ranges += len(track) - before
        while len(self._tracks) > settings.max_tracks or (
            self._ranges > settings.max_total_ranges and len(self._tracks) > 1
        ):
            key, track = self._tracks.popitem(last=False)
            names = self._names[key[0]]
            del names[key[1]]
            self._sums.pop(key, None)
            self._closed.pop(key, None)
            if not names:
                del self._names[key[0]]
            self._sparse -= isinstance(track, NumberSet)
            self._raise_floor(key, track.stop)
            self._ranges -= len(track)
            self.forgotten += len(track)

    def snapshot(self) -> TrackSnapshot:
        floors = self._floors
        gone: list[Sequence[Any]] = [
            (source, name, [], floor)
            for (source, name), floor in floors.items()
            if (source, name) not in self._tracks
        ]
        return gone + [
            (key[0], key[1], edges, floors[key]) if key in floors else (key[0], key[1], edges)
            for key, track in self._tracks.items()
            for edges in [[edge for pair in _entries(track) for edge in pair]]
        ]

    def sums(self) -> list[ContentSum]:
        """What `load` takes beside the snapshot."""
        every = chain(self._sums.values(), self._closed.values())
        return [content for contents in every for content in contents.values()]

    def load(self, snapshot: TrackSnapshot, sums: Iterable[Sequence[Any]] = ()) -> None:
        """Start from a snapshot; what was there before is dropped."""
        self._tracks.clear()
        self._names.clear()
        self._floors.clear()
        self._sums.clear()
        self._closed.clear()
        self._ranges = 0
        self._sparse = 0
        for source, name, _, *floor in snapshot:
            if floor:
                self._raise_floor((source, name), floor[0])
        self.add(
            SequenceMark(source, name, edges[i], edges[i + 1])
            for source, name, edges, *_ in snapshot
            for i in range(0, len(edges), 2)
        )
        for each in sums:
            content = ContentSum(*each)
            key = content.source, content.name
            if self.floor(*key) > content.first:
                content = content._replace(total=None)
            track = self._tracks.get(key)
            if isinstance(track, RangeSet):
                closed = track.covers(content.first, content.stop)
                if not closed or content.total is not None:
                    where = self._closed if closed else self._sums
                    where.setdefault(key, {})[content.first, content.stop] = content

    def _sum(self, more: ContentSum) -> None:
        source, name, first, stop, messages, total = more
        key = source, name
        track = self._tracks.get(key)
        if isinstance(track, RangeSet) and track.covers(first, stop):
            return
        sums = self._sums.setdefault(key, {})
        content = sums.get((first, stop))
        if content is None:
            content = more._replace(messages=0, total=0 if self.floor(*key) <= first else None)
        if content.total is not None and total is not None:
            total = (content.total + total) % MODULUS
        else:
            total = None
        sums[first, stop] = more._replace(messages=content.messages + messages, total=total)
        if len(sums) > MAX_SUMS:
            low, high = (sums.pop(where) for where in sorted(sums)[:2])
            both = None
            if low.total is not None and high.total is not None:
                both = (low.total + high.total) % MODULUS
            end = max(low.stop, high.stop)
            sums[low.first, end] = low._replace(
                stop=end, messages=low.messages + high.messages, total=both
            )

    def _close_sums(
        self, key: _Track, track: RangeSet, first: int, stop: int, now: Sequence[ContentSum]
    ) -> None:
        """All numbers of ``[first, stop)`` are about to be marked: sums in it cannot grow any
        more. ``now`` came with the mark, and are part of the sums already."""
        sums = self._sums[key]
        for low, high in [each for each in sums if first <= each[0] and each[1] <= stop]:
            content = sums.pop((low, high))
            stored = sum(b - a for a, b in track.within(low, high))
            stored += sum(each.messages for each in now if each[:4] == (*key, low, high))
            if content.total is not None and content.messages == stored:
                self._closed.setdefault(key, {})[low, high] = content
        if not sums:
            del self._sums[key]
        closed = self._closed.get(key, {})
        for where in sorted(closed)[:-MAX_CLOSED]:
            del closed[where]

    @property
    def _share(self) -> int:
        """Entries that a sparse track may have."""
        settings = self._settings
        share = settings.max_total_ranges // (2 * max(1, self._sparse))
        return max(1, min(SPARSE_FACTOR * settings.max_ranges, share))

    def _new(self, name: str) -> RangeSet | NumberSet:
        if not name.endswith(SPARSE):
            return RangeSet()
        self._sparse += 1
        return NumberSet()

    def _raise_floor(self, key: _Track, floor: int) -> None:
        sums = self._sums.get(key, {})
        for where, content in sums.items():
            if where[0] < floor:
                sums[where] = content._replace(total=None)
        closed = self._closed.get(key, {})
        for where in [where for where in closed if where[0] < floor]:
            del closed[where]
        floors = self._floors
        floors[key] = max(floor, floors.get(key, 0))
        floors.move_to_end(key)
        if len(floors) > 2 * self._settings.max_tracks:
            floors.popitem(last=False)


def _entries(track: RangeSet | NumberSet) -> Iterable[Range]:
    return track.entries() if isinstance(track, NumberSet) else track


def _drop_lowest(track: RangeSet | NumberSet, count: int) -> int:
    """Forget so many entries; the number behind them."""
    if isinstance(track, NumberSet):
        return track.drop_lowest(count)
    end = 0
    for lowest, end in list(islice(track, count)):
        track.remove(lowest, end)
    return end
