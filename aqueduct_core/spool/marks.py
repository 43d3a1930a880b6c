"""Which logical sequences of each producer's channel are stored already."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool.settings import Mark, SpoolSettings

Snapshot = list[tuple[str, str, list[int]]]
"""(producer, channel, [first, stop, first, stop, …]), the longest unused first."""


class Marks:
    """Bounded memory of what is stored; what is forgotten can only be stored twice, never lost.

    Holds at most ``max_tracks`` pairs (the one not used for longest goes first), ``max_ranges``
    ranges of each (the lowest go first) and ``max_total_ranges`` over all. ``forgotten`` counts
    the ranges let go.
    """

    def __init__(self, settings: SpoolSettings) -> None:
        self._settings = settings
        self._tracks: OrderedDict[tuple[str, str], RangeSet] = OrderedDict()
        self._ranges = 0
        self.forgotten = 0

    def seen(self, producer: str, channel: str) -> RangeSet:
        """The stored sequences of one channel. Live: read it, do not change it."""
        track = self._tracks.get((producer, channel))
        if track is None:
            return RangeSet()
        self._tracks.move_to_end((producer, channel))
        return track

    def add(self, marks: Iterable[Mark]) -> None:
        settings = self._settings
        for producer, channel, first, stop in marks:
            key = (producer, channel)
            track = self._tracks.get(key)
            if track is None:
                track = self._tracks[key] = RangeSet()
            else:
                self._tracks.move_to_end(key)
            before = len(track)
            track.add(first, stop)
            while len(track) > settings.max_ranges:
                lowest, end = next(iter(track))
                track.remove(lowest, end)
                self.forgotten += 1
            self._ranges += len(track) - before
        while len(self._tracks) > settings.max_tracks or (
            self._ranges > settings.max_total_ranges and len(self._tracks) > 1
        ):
            _, track = self._tracks.popitem(last=False)
            self._ranges -= len(track)
            self.forgotten += len(track)

    def snapshot(self) -> Snapshot:
        return [
            (producer, channel, [edge for pair in track for edge in pair])
            for (producer, channel), track in self._tracks.items()
        ]

    def load(self, snapshot: Snapshot) -> None:
        """Start from a snapshot; what was there before is dropped."""
        self._tracks.clear()
        self._ranges = 0
        self.add(
            Mark(producer, channel, edges[i], edges[i + 1])
            for producer, channel, edges in snapshot
            for i in range(0, len(edges), 2)
        )
