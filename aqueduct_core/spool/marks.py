"""Which logical sequences of each producer's channel are stored already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import Range, RangeSet
from aqueduct_core.spool.settings import SPARSE, Mark, SpoolSettings

Snapshot = Sequence[Sequence[Any]]
"""(producer, channel, [first, stop, first, stop, …]), the longest unused first; with a fourth
entry, the floor, where something of the channel was forgotten."""

Key = tuple[str, str]

SPARSE_FACTOR = 8
"""Entries of a sparse channel for each range that another one may have: some four million numbers
with holes."""


class Marks:
    """Bounded memory of what is stored; what is forgotten can only be stored twice, never lost.

    Holds at most ``max_tracks`` pairs (the one not used for longest goes first), ``max_ranges``
    ranges of each (the lowest go first) and ``max_total_ranges`` over all. ``forgotten`` counts
    the ranges let go. Below its *floor* a channel has forgotten something; floors are kept for
    twice ``max_tracks`` channels, those of forgotten channels included.

    A channel whose name ends in `SPARSE` is remembered number by number (`NumberSet`).
    """

    def __init__(self, settings: SpoolSettings) -> None:
        self._settings = settings
        self._tracks: OrderedDict[Key, RangeSet | NumberSet] = OrderedDict()
        self._channels: dict[str, dict[str, None]] = {}
        self._floors: OrderedDict[Key, int] = OrderedDict()
        self._ranges = 0
        self._sparse = 0
        self.forgotten = 0

    def seen(self, producer: str, channel: str) -> RangeSet:
        """The stored sequences of one channel. Live: read it, do not change it."""
        track = self._used(producer, channel)
        return track if isinstance(track, RangeSet) else RangeSet()

    def rows(self, producer: str, channel: str) -> NumberSet:
        """The same of a sparse one."""
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
        """Sequences below it may be stored though `seen` does not say so; 0: nothing was
        forgotten (or so long ago that it is not known)."""
        return self._floors.get((producer, channel), 0) if self._floors else 0

    def add(self, marks: Iterable[Mark]) -> None:
        settings = self._settings
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

    def load(self, snapshot: Snapshot) -> None:
        """Start from a snapshot; what was there before is dropped."""
        self._tracks.clear()
        self._channels.clear()
        self._floors.clear()
        self._ranges = 0
        self._sparse = 0
        for producer, channel, _, *floor in snapshot:
            if floor:
                self._raise_floor((producer, channel), floor[0])
        self.add(
            Mark(producer, channel, edges[i], edges[i + 1])
            for producer, channel, edges, *_ in snapshot
            for i in range(0, len(edges), 2)
        )

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
