"""Which run of a producer writes to a channel: one at a time.

A producer's process is a *run*. It asks where a channel stands before it sends on it, and takes the
channel by that: what another connection of the producer still has under way for it must not come
behind the answer, or the next numbers would be given twice and one of the two messages be dropped
as a repeat of the other.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from aqueduct_core.aqueduct import chanid
from aqueduct_core.aqueduct.conventions import POSITION_OF
from aqueduct_core.aqueduct.news import Run

MAX_OWNERS = 65_536
"""Channels whose run is remembered, the longest untaken first to go: then an old run that comes
back is not recognised as such."""


class Writer(Protocol):
    """A connection of a producer."""

    def carries(self, producer: str, channel: str) -> bool:
        """Whether it has a channel of this name open, with logical numbers."""

    def fence(self, channel: str) -> None:
        """Another run has taken this channel: store nothing more, and close."""


class ChannelOwners:
    """The connections of each producer, and the run that has taken each channel.

    Clients that name no run, and channels that nobody asked for, are as free as they ever were.
    Kept in memory: after a restart the first run that attaches a channel is believed.
    """

    def __init__(self) -> None:
        self._writers: dict[str, set[Writer]] = {}
        self._owners: OrderedDict[tuple[str, str], str] = OrderedDict()

    def join(self, writer: Writer, producer: str) -> None:
        self._writers.setdefault(producer, set()).add(writer)

    def leave(self, writer: Writer, producer: str) -> None:
        writers = self._writers.get(producer, set())
        writers.discard(writer)
        if not writers:
            self._writers.pop(producer, None)

    def take(self, writer: Writer, producer: str, channel: str, run: str | None) -> None:
        """The channel is this run's from now on; other connections that carry it are fenced."""
        self._owners.pop((producer, channel), None)
        if run is not None:
            self._owners[producer, channel] = run
            if len(self._owners) > MAX_OWNERS:
                self._owners.popitem(last=False)
        for other in list(self._writers.get(producer, ())):
            if other is not writer and other.carries(producer, channel):
                other.fence(channel)

    def admits(self, producer: str, channel: str, run: str | None) -> bool:
        """Whether this run may attach the channel."""
        return run is None or self._owners.get((producer, channel), run) == run


def position_questions(run: Run) -> tuple[int, ...]:
    """The messages of a run, by index, that only ask for a position; they hold nothing to store."""
    return tuple(
        index
        for index, attachments in run.attachments.items()
        if len(attachments) == 1
        and chanid.sender(attachments[0].channel) is not chanid.sender(run.channel)
        and any(key == POSITION_OF for key, _ in attachments[0].headers)
        and index not in run.headers
        and run.offsets[index] == run.offsets[index + 1]
    )
