"""The channels of one line that flow to us, and what of each waits for its ack."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aqueduct_core.intake.storage.batches import ChannelTally
from aqueduct_core.intake.telehash.rows import TelehashSource

CHANNEL_BYTES = 2_000
"""What a channel takes beside its packets, with a window of them that wait for their ack, about."""


class _Handed(NamedTuple):
    """Packets below ``stop`` that came ``at`` (monotonic seconds)."""

    stop: int
    at: float


@dataclass(slots=True)
class TakenChannel:
    """One channel. ``ours``: we have opened it. ``stored``: below it all reliable packets are
    durable; ``acked``: below it they are acked. ``finishing``: its end is in a group, or stored."""

    source: TelehashSource
    reliable: bool
    ours: bool = False
    tally: ChannelTally = field(default_factory=ChannelTally)
    stored: int = 0
    acked: int = 0
    finishing: bool = False
    _handed: deque[_Handed] = field(default_factory=deque)

    def source_of(self, writer: str | None) -> TelehashSource:
        """The same one for neighbours with marks of one writer."""
        if writer != self.source.writer:
            self.source = replace(self.source, writer=writer, by_source=writer is not None)
        return self.source

    def hand(self, stop: int, now: float) -> None:
        """Packets below ``stop`` were handed to storage."""
        if self.reliable:
            self._handed.append(_Handed(stop, now))

    def ack(self, stop: int) -> None:
        """The packets below ``stop`` are acked."""
        self.acked = max(self.acked, stop)
        while self._handed and self._handed[0].stop <= self.acked:
            self._handed.popleft()

    @property
    def unacked(self) -> int:
        """Packets that wait for their ack."""
        return self._handed[-1].stop - self.acked if self._handed else 0

    @property
    def waits_since(self) -> float | None:
        """When the oldest of them came."""
        return self._handed[0].at if self._handed else None


class TakenChannels:
    """By number."""

    def __init__(self) -> None:
        self._channels: dict[int, TakenChannel] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def __contains__(self, number: int) -> bool:
        return number in self._channels

    def __iter__(self) -> Iterator[TakenChannel]:
        return iter(self._channels.values())

    def get(self, number: int) -> TakenChannel | None:
        return self._channels.get(number)

    def add(self, channel: TakenChannel) -> None:
        self._channels[channel.source.channel_id] = channel

    def pop(self, number: int) -> TakenChannel | None:
        return self._channels.pop(number, None)

    def clear(self) -> list[TakenChannel]:
        """Take all of them out."""
        gone = list(self._channels.values())
        self._channels.clear()
        return gone

    @property
    def memory(self) -> int:
        """Bytes that they take, about."""
        return CHANNEL_BYTES * len(self._channels)

    @property
    def unacked(self) -> tuple[int, int]:
        """Packets that wait for their ack, and of how many channels."""
        waiting = [each.unacked for each in self if each.unacked]
        return sum(waiting), len(waiting)
