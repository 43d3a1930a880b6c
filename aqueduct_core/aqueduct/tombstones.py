"""Channels of the peer that ended or were forgotten here: what is routed there is ignored.

Kept for the whole connection, as ranges of indexes for each (SENDER, ONESHOT); holes are
channels still to come and are never merged over (AQ-LIFE-17, B15).
"""

from __future__ import annotations

from collections import deque

from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.primitives.ranges import RangeSet


class ChannelSet:
    """A set of channels of one creator, as ranges of indexes."""

    __slots__ = ("_kinds",)

    def __init__(self) -> None:
        self._kinds: dict[int, RangeSet] = {}

    def _kind(self, channel: int) -> RangeSet:
        ranges = self._kinds.get(channel & 7)
        if ranges is None:
            ranges = self._kinds[channel & 7] = RangeSet()
        return ranges

    def add(self, channel: int) -> RangeSet:
        """Add it; the ranges of its kind."""
        ranges = self._kind(channel)
        index = chanid.index(channel)
        ranges.add(index, index + 1)
        return ranges

    def replace(self, kind: int, ranges: RangeSet) -> None:
        """From now on ``ranges`` are those of ``kind``, the low three bits of its channels."""
        self._kinds[kind] = ranges

    @property
    def ranges(self) -> int:
        return sum(map(len, self._kinds.values()))

    def __contains__(self, channel: int) -> bool:
        ranges = self._kinds.get(channel & 7)
        return ranges is not None and chanid.index(channel) in ranges


BATCH = 8
"""One in so many ranges goes at once: to find them takes a walk over all."""


class Tombstones:
    """About ``most`` ranges a kind; beyond it the lowest that are older than ``age`` go, one in
    eight at a time. Where none is so old, none goes."""

    __slots__ = ("_age", "_channels", "_most", "_next", "_recent")

    def __init__(self, most: int, age: float) -> None:
        self._most = most
        self._age = age
        self._channels = ChannelSet()
        self._recent: deque[tuple[float, int]] = deque()
        self._next: dict[int, float] = {}  # for each kind: when there is one to evict

    def __contains__(self, channel: int) -> bool:
        return channel in self._channels

    @property
    def ranges(self) -> int:
        """Ranges, and those that are too young to go."""
        return self._channels.ranges + len(self._recent)

    def add(self, channel: int, now: float) -> None:
        if channel == chanid.ENTRYPOINT:
            # apart from the ranges, so that eviction can never re-create it (AQ-LIFE-23)
            self._channels.add(channel)
            return
        ranges = self._channels.add(channel)
        recent = self._recent
        recent.append((now, channel))
        while recent and recent[0][0] <= now - self._age:
            recent.popleft()
        if len(ranges) > self._most and now >= self._next.get(channel & 7, now):
            self._evict(ranges, channel & 7)

    def _evict(self, ranges: RangeSet, kind: int) -> None:
        young = RangeSet()
        for _, channel in self._recent:
            if channel & 7 == kind:
                index = chanid.index(channel)
                young.add(index, index + 1)
        left = self._most - self._most // BATCH
        spare = len(ranges) - left
        kept = RangeSet()
        for first, stop in ranges:
            if not spare or young.overlaps(first, stop) or (kind == 0 and first == 0):
                kept.add(first, stop)
            else:
                spare -= 1
        self._channels.replace(kind, kept)
        if len(kept) > self._most:
            self._next[kind] = self._recent[0][0] + self._age
