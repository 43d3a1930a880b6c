"""What all messages of a channel share, and the parts of batches that become rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aqueduct_core.engine.checksum import BatchPart, Checks, Content, of_batches
from aqueduct_core.engine.message_batch import MessageBatch
from aqueduct_core.primitives.ranges import Numbers, Range, stretches
from aqueduct_core.spool import SPARSE, ContentSum

MAX_NUMBER = 1 << 62
"""Logical numbers are below it."""


@dataclass(frozen=True, slots=True)
class ChannelSource:
    """What all messages of one channel share. A protocol adds what its rows show besides.

    ``channel`` is its name, ``producer`` the identity of who sends. ``start`` is the logical
    number of its reliable message 0, ``floor`` that below which its producer is done; None where
    it is no sink, whose numbers jump from batch to batch. ``run_number`` is of the run that is to
    own the channel, None where none is (`channel_owners`). ``by_source``: messages have the numbers
    of the rows that they are made of, which come with them.
    """

    channel: str
    producer: str
    connection: str
    channel_id: int
    start: int = 0
    floor: int | None = None
    run_number: int | None = None
    by_source: bool = False

    @property
    def track(self) -> tuple[str, str]:
        """Producer and name under which it is remembered what is stored."""
        return self.producer, self.channel + SPARSE if self.by_source else self.channel

    @property
    def place(self) -> str:
        """What decides on the partition of its messages: the same one for all of a channel."""
        return f"{self.producer}\0{self.channel}"

    @property
    def scattered(self) -> bool:
        """Messages of its track may lie on any partition, as channels with different places bring
        them."""
        return False

    @property
    def space(self) -> Range:
        """The logical numbers of which one checksum is kept."""
        return 0, MAX_NUMBER

    @property
    def done(self) -> Range:
        """Numbers that count as stored with each of its messages, whether they were or not, as
        their producer is done with them."""
        return 0, self.floor or 0

    @property
    def parent(self) -> tuple[int | None, int | None]:
        """Channel and number of the message that brought this channel, where one did."""
        return None, None

    def number(self, batch: MessageBatch, index: int) -> int:
        """The number of message ``index`` of a batch of this channel, as its row shows it."""
        return batch.first + index + (self.start if batch.reliable else 0)


@dataclass(slots=True)
class RepeatCount:
    """How many messages of one sequence a connection brought that were stored before.
    ``uncompared``: of those known by their source, so many could not be compared with what is
    stored."""

    messages: int = 0
    uncompared: int = 0


@dataclass(slots=True)
class ChannelTally:
    """What became of the reliable messages of one channel; counted when they are accepted.

    ``first`` and ``last`` are the lowest and the highest logical number of those that were stored
    before; ``repeats`` is what all channels of the same sequence on this connection share.
    ``recorded``: their event is; ``refused``: they were other ones, and ``others`` are the numbers
    of these as the last comparison of single messages found them. ``content`` is of all
    messages of the channel with logical numbers, repeats included, as far as their groups were
    handed to the spool.
    """

    stored: int = 0
    deduped: int = 0
    first: int = 0
    last: int = -1
    content: Content = field(default_factory=Content)
    repeats: RepeatCount = field(default_factory=RepeatCount)
    recorded: bool = False
    refused: bool = False
    others: Sequence[int] = ()

    def repeated(self, first: int, stop: int) -> None:
        """Messages with these logical numbers were stored before."""
        self.first = min(self.first, first) if self.deduped else first
        self.last = max(self.last, stop - 1)
        self.deduped += stop - first
        self.repeats.messages += stop - first


class BatchSlice(NamedTuple):
    """The messages ``[low, high)`` of a batch, received at ``timestamp`` (microseconds, UTC).

    ``resumes``: their producer keeps logical numbers, so they are marked as stored. ``numbers`` are
    those of all messages of the batch, where they do not follow from the channel's. ``tally``: that
    of their channel.
    """

    source: ChannelSource
    batch: MessageBatch
    low: int
    high: int
    timestamp: int
    resumes: bool = False
    numbers: Numbers | None = None
    tally: ChannelTally | None = None

    @property
    def logical(self) -> list[Range]:
        """The logical numbers of the messages."""
        if self.numbers is None:
            first = self.source.number(self.batch, self.low)
            return [(first, first + self.high - self.low)]
        numbers = self.numbers[self.low : self.high]
        return [(int(numbers[low]), int(numbers[low]) + high - low)
                for low, high in stretches(numbers)]  # fmt: skip

    @property
    def size(self) -> int:
        """Payload bytes."""
        offsets = self.batch.offsets
        return int(offsets[self.high] - offsets[self.low])


def add_contents(slices: Sequence[BatchSlice]) -> tuple[list[ContentSum], Checks]:
    """The content of reliable messages with logical numbers: of each channel, but none of messages
    whose numbers do not follow from those of the channel, and the checks of all messages. It is
    added to the tallies of their channels."""
    parts = [
        BatchPart(each.batch, each.low, each.high, each.source.number(each.batch, each.low))
        for each in slices
    ]
    contents, checks = of_batches(parts)
    sums: dict[tuple[str, str, int, int], Content] = {}
    for each, content in zip(slices, contents, strict=True):
        source = each.source
        if each.numbers is not None:
            continue
        if each.tally is not None:
            each.tally.content = each.tally.content.plus(content)
        key = source.producer, source.channel, *source.space
        sums[key] = sums.get(key, Content()).plus(content)
    return [ContentSum(*key, *content) for key, content in sums.items()], checks
