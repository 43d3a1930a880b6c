"""Which channels of a line have been: each number is used once (P3), and one that ended is still
answered for a while (T17)."""

from __future__ import annotations

from collections import OrderedDict

from aqueduct_core.primitives.ranges import RangeSet

MAX_SKIPPED = 1_024
"""Stretches of numbers that the peer has skipped and may still open: openings overtake each other,
and those that were lost come seconds later. Of more than these, the oldest count as used."""
ANSWER_INTERVAL = 1.0
"""Seconds between two answers for a channel that has failed."""
ENDED_BYTES = 400
"""Memory of a channel that has ended."""


class OpenedNumbers:
    """Numbers of channels that the peer has opened, of its parity."""

    __slots__ = ("_first", "_used")

    def __init__(self, *, odd: bool) -> None:
        self._first = 1 if odd else 2
        self._used = RangeSet()

    def __contains__(self, channel: int) -> bool:
        return (channel - self._first) // 2 in self._used

    def is_peers(self, channel: int) -> bool:
        """Whether a channel of this number is the peer's."""
        return channel % 2 == self._first % 2

    def add(self, channel: int) -> None:
        index = (channel - self._first) // 2
        self._used.add(index, index + 1)
        if len(self._used) > MAX_SKIPPED:
            (_, stop), (start, _) = list(self._used)[:2]
            self._used.add(stop, start)


class QuietChannels:
    """Channels whose peer need not say that it is done with them, as of an unreliable one: who has
    said nothing for ``idle`` seconds gives way, where a new one needs the place (P7)."""

    __slots__ = ("_heard", "_idle")

    def __init__(self, idle: float) -> None:
        self._heard: OrderedDict[int, float] = OrderedDict()
        self._idle = idle

    def heard(self, channel: int, now: float) -> None:
        self._heard[channel] = now
        self._heard.move_to_end(channel)

    def forget(self, channel: int) -> None:
        self._heard.pop(channel, None)

    def idlest(self, now: float) -> int | None:
        """The one that has been silent for longest, if for long enough."""
        for channel, heard in self._heard.items():
            return channel if now >= heard + self._idle else None
        return None


class EndedChannel:
    """What is left of a channel: a packet that goes again when something comes again; the last ack
    (T10, T17), or ``failure``, which has its ``err``."""

    __slots__ = ("ack", "answered_at", "failure", "until")

    def __init__(self, ack: bytes | None, failure: bytes | None, until: float) -> None:
        self.ack = ack
        self.failure = failure
        self.answered_at: float | None = None
        self.until = until


class EndedChannels:
    """Those that ended lately, at most ``most``; each is forgotten when nothing has come of it for
    ``idle`` seconds."""

    __slots__ = ("_channels", "_idle", "_most")

    def __init__(self, most: int, idle: float) -> None:
        self._channels: OrderedDict[int, EndedChannel] = OrderedDict()
        self._most = most
        self._idle = idle

    def __len__(self) -> int:
        return len(self._channels)

    def __contains__(self, channel: int) -> bool:
        return channel in self._channels

    def add(self, channel: int, ack: bytes | None, failure: bytes | None, now: float) -> None:
        self._channels[channel] = EndedChannel(ack, failure, now + self._idle)
        self._channels.move_to_end(channel)
        if len(self._channels) > self._most:
            self._channels.popitem(last=False)

    def heard(self, channel: int, now: float) -> None:
        """Something came of it: it is not idle."""
        ended = self._channels[channel]
        ended.until = now + self._idle
        self._channels.move_to_end(channel)

    def answer(self, channel: int, now: float) -> bytes | None:
        """What to say to a packet with content, if there is anything to say now."""
        ended = self._channels.get(channel)
        if ended is None:
            return None
        if ended.failure is not None:
            if ended.answered_at is not None and now < ended.answered_at + ANSWER_INTERVAL:
                return None
            ended.answered_at = now
            return ended.failure
        return ended.ack

    @property
    def next(self) -> float | None:
        """When the next one is forgotten."""
        for ended in self._channels.values():
            return ended.until
        return None

    def expire(self, now: float) -> None:
        while self._channels:
            channel, ended = next(iter(self._channels.items()))
            if ended.until > now:
                break
            del self._channels[channel]

    def clear(self) -> None:
        self._channels.clear()
