"""The state behind a ``Receiver``: a queue that stays when the channel becomes networked."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from aqueduct_core.aio.half import CarriedHalf, abandon
from aqueduct_core.aio.message import rest_of
from aqueduct_core.aio.outcomes import Cancelled, Outcome
from aqueduct_core.aio.send_state import label
from aqueduct_core.aqueduct.events import Counts
from aqueduct_core.engine.message_batch import BatchItem, Headers, MessageBatch
from aqueduct_core.transport.awaiting import Signal

CREDIT_STEP = 65_536
"""Bytes that gather before credit is returned while more is queued."""


class MessageSource(Protocol):
    """Where the messages of a receiver come from: a local or a networked channel."""

    def taken(self, size: int) -> None:
        """The application is done with ``size`` bytes."""

    def close(self) -> None:
        """The application wants no more."""


@dataclass(frozen=True, slots=True)
class ReceiverStatistics:
    """Totals of a receiver: messages that arrived, that the application took, and bytes queued;
    ``nacked`` are unreliable messages that we told the sender did not arrive."""

    received: int
    taken: int
    nacked: int
    queued_bytes: int


class TakenMessage(NamedTuple):
    """One message out of the queue; ``number`` as this side counts."""

    single: BatchItem
    number: int
    reliable: bool
    carried: tuple[CarriedHalf, ...]


class QueuedBatch:
    """A batch in the queue, from which messages are taken one by one."""

    __slots__ = ("_rows", "carried", "columns", "credited", "index", "shift")

    def __init__(
        self, columns: MessageBatch, carried: dict[int, tuple[CarriedHalf, ...]], shift: int
    ) -> None:
        self.columns = columns
        self.carried = carried
        self.shift = shift
        self.index = 0
        self.credited = 0
        self._rows: Iterator[BatchItem] | None = None

    @property
    def left(self) -> int:
        """Bytes of the batch that are not credited yet."""
        return self.columns.size - self.credited

    def pop(self) -> tuple[TakenMessage, int]:
        """The next message and its share of the batch's bytes."""
        if self._rows is None:
            self._rows = self.columns.messages()
        single = next(self._rows)
        carried = self.carried.pop(self.index, ()) if self.carried else ()
        self.index += 1
        upto = self.columns.size * self.index // self.columns.count
        share, self.credited = upto - self.credited, upto
        return TakenMessage(
            single, single.number + self.shift, self.columns.reliable, carried
        ), share

    def rest(self) -> tuple[MessageBatch, dict[int, tuple[CarriedHalf, ...]]]:
        """What was not popped, as a batch of its own, with the halves that it carries."""
        carried = {i - self.index: halves for i, halves in self.carried.items()}
        return rest_of(self.columns, self.index, self.left), carried

    @property
    def count(self) -> int:
        return self.columns.count - self.index


class ReceiveState:
    """The receiving half of a channel.

    Ends when the sender finished, cancelled, was lost, or this side closed it. After a finish or
    a loss what is queued can still be read; after a cancel it is thrown away (AQ-LIFE-14).
    Holds: ``queued`` is the bytes in ``queue``, bounded by the credit of the source, since only
    what the application took is given back.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        headers: Headers = (),
        *,
        oneshot: bool = False,
        channel: int | None = None,
    ) -> None:
        self.loop = loop
        self.headers = headers
        self.oneshot = oneshot
        self.channel = channel
        self.queue: deque[QueuedBatch] = deque()
        self.queued = 0
        self.changed = Signal()
        self.source: MessageSource
        self.in_transit = False
        self.closed = False
        self.reason = ""
        """Why it was closed, in the words of this side."""
        self.outcome: Outcome | None = None
        self.counts = Counts()
        self.received = 0
        self.taken = 0
        self.nacked = 0
        self.shift = {True: 0, False: 0}
        self._credit = 0

    @property
    def label(self) -> str:
        return label(self.channel, self.headers)

    def notify(self) -> None:
        """Whoever waits looks again."""
        self.changed.fire()

    def put(self, batch: MessageBatch, carried: dict[int, tuple[CarriedHalf, ...]]) -> None:
        """A batch has arrived. After ``close`` its halves are given up and its bytes given back."""
        if self.closed:
            for halves in carried.values():
                abandon(halves)
            self.source.taken(batch.size)
            return
        self.queue.append(QueuedBatch(batch, carried, self.shift[batch.reliable]))
        self.queued += batch.size
        self.received += batch.count
        self.changed.fire()

    def pop(self) -> TakenMessage | None:
        """The next message; None where nothing is queued."""
        if not self.queue:
            return None
        head = self.queue[0]
        taken, share = head.pop()
        if not head.count:
            self.queue.popleft()
        self.taken += 1
        self._give_back(share)
        return taken

    def pop_batch(self) -> tuple[MessageBatch, int, dict[int, tuple[CarriedHalf, ...]]] | None:
        """The next batch, the number of its first message as this side counts, and its halves."""
        if not self.queue:
            return None
        head = self.queue.popleft()
        batch, carried = head.rest()
        self.taken += batch.count
        self._give_back(batch.size)
        return batch, batch.first + head.shift, carried

    def surrender(self) -> list[QueuedBatch]:
        """Hand the queue over, unread: the half that was to read it has left."""
        queue = list(self.queue)
        self.queue.clear()
        self.queued = 0
        return queue

    def close(self) -> None:
        """The application wants no more; what is unread is thrown away. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._throw_away()
        self.source.close()
        self.changed.fire()

    abandon = close

    def ended(self, outcome: Outcome, counts: Counts | None = None) -> None:
        """The channel is over. What is queued stays readable unless the sender cancelled."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if counts is not None:
            self.counted(counts)
        if isinstance(outcome, Cancelled):
            self._throw_away()
        self.changed.fire()

    def counted(self, counts: Counts) -> None:
        """Totals of the channel; what it carried while it was local comes on top."""
        reliable, unreliable = self.shift[True], self.shift[False]
        self.counts = counts._replace(
            reliable_sent=counts.reliable_sent and counts.reliable_sent + reliable,
            reliable_received=counts.reliable_received + reliable,
            unreliable_sent=counts.unreliable_sent + unreliable,
            acked=counts.acked + reliable + unreliable,
        )

    def statistics(self) -> ReceiverStatistics:
        return ReceiverStatistics(self.received, self.taken, self.nacked, self.queued)

    def _throw_away(self) -> None:
        """Unread halves are given up (AQ-LIFE-20), unread bytes given back."""
        for queued in self.surrender_all():
            for halves in queued.carried.values():
                abandon(halves)

    def surrender_all(self) -> list[QueuedBatch]:
        left = self.queued
        queue = self.surrender()
        self._credit += left
        self._flush_credit()
        return queue

    def _give_back(self, size: int) -> None:
        self.queued -= size
        self._credit += size
        if self._credit >= CREDIT_STEP or not self.queue:
            self._flush_credit()

    def _flush_credit(self) -> None:
        if self._credit:
            credit, self._credit = self._credit, 0
            self.source.taken(credit)
