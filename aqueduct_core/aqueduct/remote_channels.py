"""Channels of the peer and their carriers: which were claimed, and what waits for a claim.

A channel may be used before the message that carries it comes in (the common race). Until then
its machine is *unclaimed*; when the machine ends first, a record keeps its queue and its end for
the later claim (AQ-LIFE-22, B18).
"""

from __future__ import annotations

from typing import NamedTuple

from aqueduct_core.aqueduct.config import Config
from aqueduct_core.aqueduct.event_queue import BatchBuilder
from aqueduct_core.aqueduct.events import Ended
from aqueduct_core.aqueduct.faults import Code, PeerFault
from aqueduct_core.aqueduct.tombstones import ChannelSet


class RemoteChannel(NamedTuple):
    """What is left of a machine that ended before the application knew its channel."""

    queue: list[BatchBuilder]
    ended: Ended


class RemoteChannels:
    """``bytes`` counts MESSAGE frame bytes that wait for a claim, ``pieces`` as credit counts
    them."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._claimed = ChannelSet()
        self._waiting: set[int] = set()
        self._records: dict[int, RemoteChannel] = {}
        self.bytes = 0
        self.pieces = 0

    @property
    def ranges(self) -> int:
        """Of the channels that a message carried."""
        return self._claimed.ranges

    @property
    def records(self) -> int:
        """Channels that ended, or wait, without a claim."""
        return len(self._waiting) + len(self._records)

    def made(self, channel: int) -> None:
        """A machine was made with no claim (AQ-LIFE-21)."""
        self._waiting.add(channel)
        self._check()

    def _check(self) -> None:
        if len(self._waiting) + len(self._records) > self._config.max_unclaimed_channels:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many channels that no message carried")

    def hold(self, size: int, pieces: int) -> None:
        """``size`` bytes of messages wait, in ``pieces``."""
        self.bytes += size
        self.pieces += pieces
        if self.bytes > self._config.max_unclaimed_bytes:
            raise PeerFault(Code.RESOURCE_LIMIT, "too many bytes on unclaimed channels")

    def release(self, queue: list[BatchBuilder], pieces: int) -> None:
        """These batches wait no longer: given out, or thrown away."""
        self.bytes -= sum(builder.size for builder in queue)
        self.pieces -= pieces

    def claim(self, channel: int, *, alive: bool) -> None:
        """A message carried ``channel``; ``alive``: it has a machine.

        Raises:
            PeerFault: another message did before (AQ-LIFE-10).
        """
        if channel in self._claimed or (alive and channel not in self._waiting):
            raise PeerFault(Code.STATE, f"channel {channel} is attached to two messages")
        ranges = self._claimed.add(channel)
        if len(ranges) > self._config.max_tombstone_ranges:
            # as far as it can still be seen: one that is alive is seen by its machine
            ranges.remove(*next(iter(ranges)))
        self._waiting.discard(channel)

    def ended(self, channel: int, record: RemoteChannel | None) -> None:
        """The machine ended before the application knew the channel."""
        self._waiting.discard(channel)
        if record is not None:
            self._records[channel] = record
            self._check()

    def take(self, channel: int) -> RemoteChannel | None:
        return self._records.pop(channel, None)
