"""A bounded memory of what was seen, for any application that receives from a sink of ours."""

from __future__ import annotations

from collections import OrderedDict

from aqueduct_core.aqueduct.conventions.dedupe.identity import ChannelKey
from aqueduct_core.primitives.ranges import Range, RangeSet

DeduplicatorSnapshot = list[tuple[str, str, list[int]]]
"""(producer, channel, [first, stop, …]), the longest unused first; plain enough for JSON."""


class Deduplicator:
    """Tells which messages of a channel are new, by the numbers that their sender gives them.

    To handle each row once, store the snapshot together with what was made of the messages; one
    that is only kept in memory ends with its process.

    Holds at most ``max_tracks`` pairs of producer and channel (the one not used for longest goes
    first) and ``max_ranges`` ranges of each (the lowest go first); ``forgotten`` counts the ranges
    that had to go. What is forgotten may be taken for new, so it can come twice but never be lost.
    Sinks need one or two ranges for a track, whatever the number of rows and batches.
    """

    def __init__(self, *, max_tracks: int = 16_384, max_ranges: int = 1_024) -> None:
        if max_tracks < 1 or max_ranges < 1:
            raise ValueError(f"bounds of {max_tracks} tracks and {max_ranges} ranges: 1 or more")
        self._max_tracks = max_tracks
        self._max_ranges = max_ranges
        self._tracks: OrderedDict[tuple[str, str], RangeSet] = OrderedDict()
        self.forgotten = 0

    @property
    def tracks(self) -> int:
        """Pairs of producer and channel that are remembered."""
        return len(self._tracks)

    def is_new(self, key: ChannelKey | None, number: int) -> bool:
        """Whether reliable message ``number`` of the channel (as the wire counts) was never seen;
        it is seen from now on. Without a key every message is new."""
        return key is None or bool(self.fresh(key, number, number + 1))

    def fresh(self, key: ChannelKey, first: int, stop: int) -> list[Range]:
        """The pieces of messages ``[first, stop)`` of the channel that were never seen."""
        track = self._track(key)
        base = key.start
        if key.floor:
            track.add(0, key.floor)
        new = track.add(base + first, base + stop)
        while len(track) > self._max_ranges:
            lowest, end = next(iter(track))
            track.remove(lowest, end)
            self.forgotten += 1
        return [(low - base, high - base) for low, high in new]

    def snapshot(self) -> DeduplicatorSnapshot:
        return [
            (producer, channel, [edge for pair in track for edge in pair])
            for (producer, channel), track in self._tracks.items()
        ]

    @classmethod
    def of(
        cls, snapshot: DeduplicatorSnapshot, *, max_tracks: int = 16_384, max_ranges: int = 1_024
    ) -> Deduplicator:
        """Go on where a snapshot was taken."""
        made = cls(max_tracks=max_tracks, max_ranges=max_ranges)
        for producer, channel, edges in snapshot:
            track = made._track(ChannelKey(producer, channel, 0))
            for first, stop in zip(edges[::2], edges[1::2], strict=True):
                track.add(first, stop)
        return made

    def _track(self, key: ChannelKey) -> RangeSet:
        name = (key.producer, key.channel)
        track = self._tracks.get(name)
        if track is None:
            track = self._tracks[name] = RangeSet()
            while len(self._tracks) > self._max_tracks:
                _, oldest = self._tracks.popitem(last=False)
                self.forgotten += len(oldest)
        else:
            self._tracks.move_to_end(name)
        return track
