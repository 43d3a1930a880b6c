"""Which run of a producer writes to a channel: one at a time.

A producer's process is a *run*. It asks where a channel stands before it sends on it, and takes the
channel by that: what another connection of the producer still has under way for it must not come
behind the answer, or the next numbers would be given twice and one of the two messages be dropped
as a repeat of the other. A run is known by a number made of its name; the spool notes that of the
run that has stored something of a channel last (`channel_numbers`), so an old run that comes back
is known as such behind a restart, too. One that had only asked by then is not noted; it says what
the answer was, and may go on where that still holds: no number of its own is another message's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Protocol

from aqueduct_core.intake.storage.channel_numbers import RUN_BYTES

MAX_OWNERS = 65_536
"""Channels whose run is remembered, the longest untaken first to go: then only what is stored says
whose they are."""


class ChannelWriter(Protocol):
    """A connection of a producer."""

    def carries(self, producer: str, channel: str) -> bool:
        """Whether it has a channel of this name open, with logical numbers."""

    def fence(self, channel: str) -> None:
        """Another run has taken this channel: store nothing more, and close."""


class ChannelOwners:
    """The connections of each producer, and the run that has taken each channel.

    A channel of which nothing is known is that of the first run that attaches it. Clients that name
    no run are as free as they ever were. ``noted`` is the run that has stored something of a
    producer's channel last, None where that is not known; ``stands`` the number at which the
    channel stands.
    """

    def __init__(
        self, noted: Callable[[str, str], int | None], stands: Callable[[str, str], int]
    ) -> None:
        self._noted = noted
        self._stands = stands
        self._writers: dict[str, set[ChannelWriter]] = {}
        self._owners: OrderedDict[tuple[str, str], int | None] = OrderedDict()

    def join(self, writer: ChannelWriter, producer: str) -> None:
        self._writers.setdefault(producer, set()).add(writer)

    def leave(self, writer: ChannelWriter, producer: str) -> None:
        writers = self._writers.get(producer, set())
        writers.discard(writer)
        if not writers:
            self._writers.pop(producer, None)

    def take(self, writer: ChannelWriter, producer: str, channel: str, run: int | None) -> None:
        """The channel is this run's from now on; other connections that carry it are fenced."""
        self._give(producer, channel, run)
        for other in list(self._writers.get(producer, ())):
            if other is not writer and other.carries(producer, channel):
                other.fence(channel)

    def admits(
        self,
        writer: ChannelWriter,
        track: tuple[str, str],
        run: int | None,
        stood_at: int | None = None,
    ) -> bool:
        """Whether this run may attach the channel, else its connection is fenced; what is nobody's
        is the run's from now on. ``track``: producer and channel. ``stood_at``: the answer
        that the run had, where it has asked; then it has the channel though that is forgotten."""
        if run is None:
            return True
        known = track in self._owners
        owner = self._owners[track] if known else self._noted(*track)
        if owner == run:
            return True
        if owner is None:
            self._give(*track, run)
        elif not known and stood_at is not None and self._stands(*track) <= stood_at:
            self.take(writer, *track, run)
        else:
            writer.fence(track[1])
            return False
        return True

    def _give(self, producer: str, channel: str, run: int | None) -> None:
        self._owners.pop((producer, channel), None)
        self._owners[producer, channel] = run
        if len(self._owners) > MAX_OWNERS:
            self._owners.popitem(last=False)


def run_number(run: str) -> int:
    """By which a run of a producer is known: two of them have one number by a chance of 2^-48."""
    return int.from_bytes(blake2b(run.encode(), digest_size=RUN_BYTES).digest(), "big")
