"""Which logical sequences of each producer's channel are stored already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool.format.settings import SPARSE, ContentSum, SequenceMark, SpoolSettings

Snapshot = Sequence[Sequence[Any]]
"""(producer, channel, [first, stop, first, stop, …]), the longest unused first; with a fourth
entry, the floor, where something of the channel was forgotten."""

Key = tuple[str, str]

MAX_SUMS = 8
"""Sums of a channel; where there are more, the two that begin lowest become one."""

MAX_CLOSED = 4
"""Sums of a channel over ranges that are stored wholly; those that begin lowest go first."""

SPARSE_FACTOR = 8
"""Entries of a sparse channel for each range that another one may have: some four million numbers
with holes."""
MODULUS = 1 << 64
"""Sums are kept modulo this."""


class Sequences:
    """Bounded memory of what is stored; what is forgotten can only be stored twice, never lost.

    Holds at most ``max_tracks`` pairs (the one not used for longest goes first), ``max_ranges``
    ranges of each (the lowest go first) and ``max_total_ranges`` over all. ``forgotten`` counts
    the ranges let go. Below its *floor* a channel has forgotten something; floors are kept for
    twice ``max_tracks`` pairs, those of forgotten ones included.

    A channel whose name ends in `SPARSE` is remembered number by number (`NumberSet`).

    The content of a channel's sequences is kept as sums over ranges that the caller chooses; each
    sequence counts in one of them. A sum counts what it adds up, so what sums say of a range is the
    whole of it exactly where that many of its sequences are stored. When a mark covers the range of
    a sum wholly, as that of a later batch does, the sum is closed: it tells for good what was
    stored of the range by then. The last ``MAX_CLOSED`` are kept until something of the range is
    forgotten.
    """

    def __init__(self, settings: SpoolSettings) -> None:
        self._settings = settings
        self._tracks: OrderedDict[Key, RangeSet | NumberSet] = OrderedDict()
        self._channels: dict[str, dict[str, None]] = {}
        self._floors: OrderedDict[Key, int] = OrderedDict()
        self._sums: dict[Key, dict[Range, ContentSum]] = {}
        self._closed: dict[Key, dict[Range, ContentSum]] = {}
        self._ranges = 0
        self._sparse = 0
        self.forgotten = 0

    def seen(self, producer: str, channel: str) -> RangeSet:
        """The stored sequences of one channel. Live: read it, do not change it."""
        track = self._used(producer, channel)
        return track if isinstance(track, RangeSet) else RangeSet()

    def rows(self, producer: str, channel: str) -> NumberSet:
        """The same of a channel whose name ends in `SPARSE`."""
        track = self._used(producer, channel)
        return track if isinstance(track, NumberSet) else NumberSet()

    def _used(self, producer: str, channel: str) -> RangeSet | NumberSet | None:
        track = self._tracks.get((producer, channel))
        if track is not None:
            self._tracks.move_to_end((producer, channel))
        return track

    def seen_of(self, producer: str) -> Iterator[tuple[str, RangeSet]]:
        """The stored sequences of all channels of a producer but sparse ones. Live, as `seen`."""
        for channel in self._channels.get(producer, ()):
            track = self._tracks[producer, channel]
            if isinstance(track, RangeSet):
                yield channel, track

    def floor(self, producer: str, channel: str) -> int:
        """Sequences below it may be stored though `seen` does not say so, as they were forgotten:
        repeats of them are not recognised. 0: nothing was forgotten (or so long ago that it is not
        known)."""
        return self._floors.get((producer, channel), 0) if self._floors else 0

    def content(self, producer: str, channel: str, first: int, stop: int) -> ContentSum:
        """What is stored of the sequences ``[first, stop)`` of a channel, as far as it was added
        with sums of exactly this range; ``total`` is None where that is not all of it, or something
        was forgotten. Of a range whose sum is closed: what was stored before."""
        closed = self._closed.get((producer, channel), {}).get((first, stop))
        if closed is not None:
            return closed
        stored = sum(b - a for a, b in self.seen(producer, channel).within(first, stop))
        kept = self._sums.get((producer, channel), {}).values()
        inside = [each for each in kept if first <= each.first and each.stop <= stop]
        totals = [each.total for each in inside if each.total is not None]
        whole = len(totals) == len(inside) and sum(each.messages for each in inside) == stored
        known = sum(totals) % MODULUS if inside and whole else None
        return ContentSum(producer, channel, first, stop, stored, known)

    def closed(self, producer: str, channel: str) -> Iterable[Range]:
        """The ranges of closed sums of a channel. Live."""
        return self._closed.get((producer, channel), ())

    def add(self, marks: Iterable[SequenceMark], sums: Sequence[ContentSum] = ()) -> None:
        settings = self._settings
        for each in sums:
            self._sum(each)
        for producer, channel, first, stop in marks:
            key = (producer, channel)
            track = self._tracks.get(key)
            if track is None:
                track = self._tracks[key] = self._new(channel)
                self._channels.setdefault(producer, {})[channel] = None
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
            channels = self._channels[key[0]]
            del channels[key[1]]
            self._sums.pop(key, None)
            self._closed.pop(key, None)
            if not channels:
                del self._channels[key[0]]
            self._sparse -= isinstance(track, NumberSet)
            self._raise_floor(key, track.stop)
            self._ranges -= len(track)
            self.forgotten += len(track)

    def snapshot(self) -> Snapshot:
        floors = self._floors
        gone: list[Sequence[Any]] = [
            (producer, channel, [], floor)
            for (producer, channel), floor in floors.items()
            if (producer, channel) not in self._tracks
        ]
        return gone + [
            (key[0], key[1], edges, floors[key]) if key in floors else (key[0], key[1], edges)
            for key, track in self._tracks.items()
            for edges in [[edge for pair in _entries(track) for edge in pair]]
        ]

    def sums(self) -> list[ContentSum]:
        """What `load` takes beside the snapshot."""
        every = chain(self._sums.values(), self._closed.values())
        return [each for kept in every for each in kept.values()]

    def load(self, snapshot: Snapshot, sums: Iterable[Sequence[Any]] = ()) -> None:
        """Start from a snapshot; what was there before is dropped."""
        self._tracks.clear()
        self._channels.clear()
        self._floors.clear()
        self._sums.clear()
        self._closed.clear()
        self._ranges = 0
        self._sparse = 0
        for producer, channel, _, *floor in snapshot:
            if floor:
                self._raise_floor((producer, channel), floor[0])
        self.add(
            SequenceMark(producer, channel, edges[i], edges[i + 1])
            for producer, channel, edges, *_ in snapshot
            for i in range(0, len(edges), 2)
        )
        for each in sums:
            kept = ContentSum(*each)
            key = kept.producer, kept.channel
            if self.floor(*key) > kept.first:
                kept = kept._replace(total=None)
            track = self._tracks.get(key)
            if isinstance(track, RangeSet):
                closed = track.covers(kept.first, kept.stop)
                if not closed or kept.total is not None:
                    where = self._closed if closed else self._sums
                    where.setdefault(key, {})[kept.first, kept.stop] = kept

    def _sum(self, more: ContentSum) -> None:
        producer, channel, first, stop, messages, total = more
        key = producer, channel
        track = self._tracks.get(key)
        if isinstance(track, RangeSet) and track.covers(first, stop):
            return
        sums = self._sums.setdefault(key, {})
        kept = sums.get((first, stop))
        if kept is None:
            kept = more._replace(messages=0, total=0 if self.floor(*key) <= first else None)
        if kept.total is not None and total is not None:
            total = (kept.total + total) % MODULUS
        else:
            total = None
        sums[first, stop] = more._replace(messages=kept.messages + messages, total=total)
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
        self, key: Key, track: RangeSet, first: int, stop: int, now: Sequence[ContentSum]
    ) -> None:
        """All sequences of ``[first, stop)`` are about to be marked: sums in it cannot grow any
        more. ``now`` came with the mark, and are part of the sums already."""
        sums = self._sums[key]
        for low, high in [each for each in sums if first <= each[0] and each[1] <= stop]:
            kept = sums.pop((low, high))
            stored = sum(b - a for a, b in track.within(low, high))
            stored += sum(each.messages for each in now if each[:4] == (*key, low, high))
            if kept.total is not None and kept.messages == stored:
                self._closed.setdefault(key, {})[low, high] = kept
        if not sums:
            del self._sums[key]
        closed = self._closed.get(key, {})
        for where in sorted(closed)[:-MAX_CLOSED]:
            del closed[where]

    @property
    def _share(self) -> int:
        """Entries that a sparse channel may have."""
        settings = self._settings
        share = settings.max_total_ranges // (2 * max(1, self._sparse))
        return max(1, min(SPARSE_FACTOR * settings.max_ranges, share))

    def _new(self, channel: str) -> RangeSet | NumberSet:
        if not channel.endswith(SPARSE):
            return RangeSet()
        self._sparse += 1
        return NumberSet()

    def _raise_floor(self, key: Key, floor: int) -> None:
        sums = self._sums.get(key, {})
        for where, kept in sums.items():
            if where[0] < floor:
                sums[where] = kept._replace(total=None)
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
