"""What connections hand over for storage, and what is reported back to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, ParamSpec, Protocol

from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.intake.storage.batches import ChannelSource, ChannelTally
from aqueduct_core.intake.storage.commit_tracker import CommitTracker
from aqueduct_core.intake.storage.event_log import DEDUPED, STORED, LoggedEvent
from aqueduct_core.primitives.ranges import Numbers, stretches


class Receipt(NamedTuple):
    """Messages ``[first, stop)`` of a channel (wire numbers), of ``size`` bytes on the wire."""

    channel: int
    reliable: bool
    first: int
    stop: int
    size: int


class GroupListener(Protocol):
    """Who brings messages and events: one connection."""

    def durable(self, receipts: list[Receipt]) -> None:
        """These messages are on disk, from this connection or an earlier one."""

    def dropped(self, receipt: Receipt) -> None:
        """These messages will not be stored; they must not be acked."""

    def recorded(self, channels: list[int]) -> None:
        """The finishes of these channels, and all rows that they count, are on disk."""

    def unrepeatable(self, source: ChannelSource, tally: ChannelTally, reason: str) -> None:
        """A channel has other content under numbers that are stored: it must not be acked any
        more, and its peer is to hear of it."""

    def pause(self) -> None:
        """Too much of this connection waits for room: bring no more until `resume`."""

    def resume(self) -> None:
        """Nothing waits any more."""

    def failed(self) -> None:
        """One of these calls has raised, which is handled just now: the connection is to end."""


Arguments = ParamSpec("Arguments")


def notify(
    listener: GroupListener,
    call: Callable[Arguments, None],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> None:
    """Call a listener where others wait for theirs: what it raises is its own connection's end."""
    try:
        call(*args, **kwargs)
    except Exception:
        listener.failed()


class ReceiptWriter(Protocol):
    """Who knows whether a connection wants receipts."""

    tracker: CommitTracker | None


class PendingBatch(NamedTuple):
    """A batch with its origin. ``resumes``: the producer keeps logical numbers of this channel.
    ``receipts``: who has the tracker of its connection, if there is one by then. ``unstored``: the
    messages, by index, that are acked and hold nothing to store. ``numbers`` of the messages, where
    they do not follow from the channel's."""

    listener: GroupListener
    batch: MessageBatch
    source: ChannelSource
    resumes: bool
    timestamp: int
    receipts: ReceiptWriter | None = None
    tally: ChannelTally | None = None
    unstored: tuple[int, ...] = ()
    numbers: Numbers | None = None

    @property
    def logical(self) -> list[tuple[int, int, int]]:
        """``(low, high, first)``: messages ``[low, high)`` of the batch have the logical numbers
        from ``first`` on."""
        if self.numbers is None:
            return [(0, self.batch.count, self.source.number(self.batch, 0))]
        return [(low, high, int(self.numbers[low])) for low, high in stretches(self.numbers)]

    @property
    def receipt(self) -> Receipt:
        batch = self.batch
        return Receipt(
            batch.channel, batch.reliable, batch.first, batch.first + batch.count, batch.size
        )


class PendingEvent(NamedTuple):
    """An event with its origin. ``tally``: what its counts lack until all that came before it is
    accepted. ``confirms``: the listener is called when it is durable, as of a finish.
    ``start``: of a channel that opened, the logical number that its producer begins with (0 also
    where it keeps none). ``source``: of the end of a channel, the channel. ``boundary``: the number
    at which a run of the producer begins or ends; 0: none."""

    listener: GroupListener
    event: LoggedEvent
    tally: ChannelTally | None = None
    confirms: bool = False
    start: int = 0
    source: ChannelSource | None = None
    boundary: int = 0

    def completed(self) -> LoggedEvent:
        """The event with its counts as they are now."""
        event, tally = self.event, self.tally
        if tally is None or event.counts is None:
            return event
        return replace(event, counts={**event.counts, STORED: tally.stored, DEDUPED: tally.deduped})


class GroupObserver:
    """Hears what a group commit does, in its thread; this one makes nothing of it."""

    def accepted(self, pending: PendingBatch, rows: int, size: int, repeats: int) -> None:
        """A batch is in the open group: so many messages of so many bytes, and so many that were
        stored before."""

    def recorded(self, event: LoggedEvent) -> None:
        """An event is in the open group."""

    def written(self, group: int) -> None:
        """A group is on its way to the disk; also more than once, where there was no room."""

    def durable(self, group: int) -> None:
        """The groups up to this number are on the disk, and what they hold was acked."""


@dataclass(slots=True)
class GroupCounters:
    """Messages, groups and events since the start of the process. ``dedupe_window_exceeded``:
    messages that were stored although they may be repeats of some that were forgotten."""

    rows: int = 0
    bytes: int = 0
    deduped: int = 0
    dedupe_window_exceeded: int = 0
    unreliable_dropped: int = 0
    withdrawn: int = 0
    groups: int = 0
    events: int = 0
