"""Channels of the peer that ended or were forgotten here: what is routed there is ignored.

Kept for the whole connection, as ranges of indexes for each (SENDER, ONESHOT); holes are
channels still to come and are never merged over (AQ-LIFE-17, B15).
"""

from __future__ import annotations

from collections import deque

from aqueduct_core.aqueduct import chanid
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

    def __contains__(self, channel: int) -> bool:
        ranges = self._kinds.get(channel & 7)
        return ranges is not None and chanid.index(channel) in ranges


class Tombstones:
    """At most ``most`` ranges a kind; beyond it the lowest that are older than ``age`` go."""

    __slots__ = ("_age", "_channels", "_most", "_recent")

    def __init__(self, most: int, age: float) -> None:
        self._most = most
        self._age = age
        self._channels = ChannelSet()
        self._recent: deque[tuple[float, int]] = deque()

    def __contains__(self, channel: int) -> bool:
        return channel in self._channels

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
        if len(ranges) > self._most:
            self._evict(ranges, channel & 7)

    def _evict(self, ranges: RangeSet, kind: int) -> None:
        young = RangeSet()
        for _, channel in self._recent:
            if channel & 7 == kind:
                index = chanid.index(channel)
                young.add(index, index + 1)
        for first, stop in list(ranges):
            if len(ranges) <= self._most:
                return
            if not young.overlaps(first, stop) and not (kind == 0 and first == 0):
                ranges.remove(first, stop)
