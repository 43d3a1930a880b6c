"""Which logical sequences of each producer's channel are stored already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool.settings import Mark, SpoolSettings

Snapshot = Sequence[Sequence[Any]]
"""(producer, channel, [first, stop, first, stop, …]), the longest unused first; with a fourth
entry, the floor, where something of the channel was forgotten."""

Key = tuple[str, str]


class Marks:
    """Bounded memory of what is stored; what is forgotten can only be stored twice, never lost.

    Holds at most ``max_tracks`` pairs (the one not used for longest goes first), ``max_ranges``
    ranges of each (the lowest go first) and ``max_total_ranges`` over all. ``forgotten`` counts
    the ranges let go. Below its *floor* a channel has forgotten something; floors are kept for
    twice ``max_tracks`` channels, those of forgotten channels included.
    """

    def __init__(self, settings: SpoolSettings) -> None:
        self._settings = settings
        self._tracks: OrderedDict[Key, RangeSet] = OrderedDict()
        self._channels: dict[str, dict[str, None]] = {}
        self._floors: OrderedDict[Key, int] = OrderedDict()
        self._ranges = 0
        self.forgotten = 0

    def seen(self, producer: str, channel: str) -> RangeSet:
        """The stored sequences of one channel. Live: read it, do not change it."""
        track = self._tracks.get((producer, channel))
        if track is None:
            return RangeSet()
        self._tracks.move_to_end((producer, channel))
        return track

    def seen_of(self, producer: str) -> Iterator[tuple[str, RangeSet]]:
        """The stored sequences of all channels of a producer. Live, as `seen`."""
        for channel in self._channels.get(producer, ()):
            yield channel, self._tracks[producer, channel]

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
                track = self._tracks[key] = RangeSet()
                self._channels.setdefault(producer, {})[channel] = None
            else:
                self._tracks.move_to_end(key)
            before = len(track)
            track.add(first, stop)
            while len(track) > settings.max_ranges:
                lowest, end = next(iter(track))
                track.remove(lowest, end)
                self._raise_floor(key, end)
                self.forgotten += 1
            self._ranges += len(track) - before
        while len(self._tracks) > settings.max_tracks or (
            self._ranges > settings.max_total_ranges and len(self._tracks) > 1
        ):
            key, track = self._tracks.popitem(last=False)
            channels = self._channels[key[0]]
            del channels[key[1]]
            if not channels:
                del self._channels[key[0]]
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
            for edges in [[edge for pair in track for edge in pair]]
        ]

    def load(self, snapshot: Snapshot) -> None:
        """Start from a snapshot; what was there before is dropped."""
        self._tracks.clear()
        self._channels.clear()
        self._floors.clear()
        self._ranges = 0
        for producer, channel, _, *floor in snapshot:
            if floor:
                self._raise_floor((producer, channel), floor[0])
        self.add(
            Mark(producer, channel, edges[i], edges[i + 1])
            for producer, channel, edges, *_ in snapshot
            for i in range(0, len(edges), 2)
        )

    def _raise_floor(self, key: Key, floor: int) -> None:
        floors = self._floors
        floors[key] = max(floor, floors.get(key, 0))
        floors.move_to_end(key)
        if len(floors) > 2 * self._settings.max_tracks:
            floors.popitem(last=False)
