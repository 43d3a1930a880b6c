"""Events on their way to the application, coalesced: one batch a channel and burst, not a message.

Merging moves a message only forward, next to its channel's earlier ones, never behind events that
came later; so a carrier always comes before what was sent on the channel that it carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from aqueduct_core.aqueduct.events import Delivered, Event, Numbered
from aqueduct_core.aqueduct.wire.frames import Block, MessageFrame
from aqueduct_core.engine.message_batch import Attachment, Headers, MessageBatch

_BATCH_BYTES = 8 << 20
"""A batch stops growing there: it becomes one buffer, and offsets stay small."""
_FEW = 8
"""Messages whose offsets are quicker added up one by one than by numpy; most batches of a
connection with many channels have one."""


class BatchBuilder:
    """A batch that still grows: consecutive messages of one channel and number space."""

    __slots__ = ("_lengths", "_payloads", "attachments", "bytes", "channel", "count", "first",
                 "headers", "reliable", "size")  # fmt: skip

    def __init__(self, channel: int, reliable: bool, first: int) -> None:
        self.channel = channel
        self.reliable = reliable
        self.first = first
        self.count = 0
        self.size = 0
        self.bytes = 0
        self.headers: dict[int, Headers] = {}
        self.attachments: dict[int, tuple[Attachment, ...]] = {}
        self._payloads: list[bytes] = []
        self._lengths: list[NDArray[np.int64] | list[int]] = []

    def fits(self, number: int) -> bool:
        return number == self.first + self.count and self.bytes < _BATCH_BYTES

    def add(self, message: MessageFrame) -> None:
        i = self.count
        if message.headers:
            self.headers[i] = message.headers
        if message.attachments:
            self.attachments[i] = message.attachments
        self._payloads.append(message.payload)
        lengths = self._lengths[-1] if self._lengths else None
        if isinstance(lengths, list):
            lengths.append(len(message.payload))
        else:
            self._lengths.append([len(message.payload)])
        self.count = i + 1
        self.size += message.size
        self.bytes += len(message.payload)

    def add_block(self, block: Block) -> None:
        for i, headers in block.headers.items():
            self.headers[self.count + i] = headers
        self._payloads.append(block.payload)
        self._lengths.append(block.lengths)
        self.count += len(block.lengths)
        self.size += block.size
        self.bytes += len(block.payload)

    def build(self) -> MessageBatch:
        lengths = self._lengths
        if len(lengths) == 1 and self.count <= _FEW:
            offsets = np.array([0, *accumulate(lengths[0])], np.int64)
        else:
            offsets = np.zeros(self.count + 1, np.int64)
            np.cumsum(lengths[0] if len(lengths) == 1 else np.concatenate(lengths), out=offsets[1:])
        payloads = self._payloads
        payload = payloads[0] if len(payloads) == 1 else b"".join(payloads)
        return MessageBatch(
            channel=self.channel,
            reliable=self.reliable,
            first=self.first,
            count=self.count,
            payload=payload,
            offsets=offsets,
            size=self.size,
            headers=self.headers,
            attachments=self.attachments,
        )


class _DeliveredBuilder:
    __slots__ = ("acked", "channel", "first", "reliable", "stop")

    def __init__(self, channel: int, reliable: bool, first: int, stop: int, acked: bool) -> None:
        self.channel = channel
        self.reliable = reliable
        self.first = first
        self.stop = stop
        self.acked = acked


class _NumberedBuilder:
    __slots__ = ("channel", "first", "reliable", "stop")

    def __init__(self, channel: int, reliable: bool, first: int) -> None:
        self.channel = channel
        self.reliable = reliable
        self.first = first
        self.stop = first + 1


class EventQueue:
    """Events since the last ``take``."""

    def __init__(self) -> None:
        self._items: list[Event | BatchBuilder | _DeliveredBuilder | _NumberedBuilder] = []
        self._batches: dict[tuple[int, bool], BatchBuilder] = {}
        self._delivered: dict[tuple[int, bool, bool], _DeliveredBuilder] = {}

    def emit(self, event: Event) -> None:
        self._items.append(event)

    def emit_message(self, channel: int, reliable: bool, message: MessageFrame) -> bool:
        """Whether the message began a new batch."""
        builder = self._builder(channel, reliable, message.number)
        builder.add(message)
        return builder.count == 1

    def emit_block(self, channel: int, block: Block) -> bool:
        """As ``emit_message``, for all messages of a block."""
        builder = self._builder(channel, True, block.first)
        builder.add_block(block)
        return builder.first == block.first

    def emit_waiting(self, builders: Sequence[BatchBuilder]) -> None:
        """Batches that waited for their channel to be known to the application."""
        self._items.extend(builders)

    def _builder(self, channel: int, reliable: bool, number: int) -> BatchBuilder:
        builder = self._batches.get((channel, reliable))
        if builder is None or not builder.fits(number):
            builder = self._batches[channel, reliable] = BatchBuilder(channel, reliable, number)
            self._items.append(builder)
        return builder

    def emit_delivered(
        self, channel: int, reliable: bool, first: int, stop: int, acked: bool
    ) -> None:
        builder = self._delivered.get((channel, reliable, acked))
        if builder is not None and builder.stop == first:
            builder.stop = stop
            return
        builder = _DeliveredBuilder(channel, reliable, first, stop, acked)
        self._delivered[channel, reliable, acked] = builder
        self._items.append(builder)

    def emit_numbered(
        self, channel: int, reliable: bool, number: int, attached: tuple[int, ...]
    ) -> None:
        """A message that waited has left; neighbours in order make one event."""
        if attached:
            self._items.append(Numbered(channel, reliable, number, number + 1, attached))
            return
        last = self._items[-1] if self._items else None
        if (
            isinstance(last, _NumberedBuilder)
            and (last.channel, last.reliable, last.stop) == (channel, reliable, number)
        ):  # fmt: skip
            last.stop += 1
            return
        self._items.append(_NumberedBuilder(channel, reliable, number))

    def take(self) -> list[Event]:
        items = self._items
        if not items:
            return []
        self._items = []
        self._batches.clear()
        self._delivered.clear()
        out: list[Event] = []
        for item in items:
            if isinstance(item, BatchBuilder):
                out.append(item.build())
            elif isinstance(item, _NumberedBuilder):
                out.append(Numbered(item.channel, item.reliable, item.first, item.stop))
            elif isinstance(item, _DeliveredBuilder):
                out.append(
                    Delivered(item.channel, item.reliable, item.first, item.stop, item.acked)
                )
            else:
                out.append(item)
        return out
