"""What happened on connections and channels, as rows of the log of events.

They lie in one column of the spool, ``event``, which is null in rows of messages, as the columns of
messages are in rows of events: a spool has one schema, so that each segment is a plain Arrow
stream, and what is durable together is in one group. A protocol names its kinds of events and what
it counts (`EventSchema`); all other columns are the same for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aqueduct_core.intake.storage.columns import array_of, constant, counted

TIMESTAMP = pa.timestamp("us", tz="UTC")

CONNECTED, DISCONNECTED, REJECTED = "connected", "disconnected", "rejected"
OPENED, FINISHED = "opened", "finished"
NACKED, GAP, REPEATED, SKIPPED = "nacked", "gap", "repeated", "skipped"
COMMON_KINDS = (
    CONNECTED,
    DISCONNECTED,
    OPENED,
    FINISHED,
    NACKED,
    GAP,
    REPEATED,
    REJECTED,
    SKIPPED,
)
"""Kinds of events that the intake itself brings about, whatever the protocol."""

STORED, DEDUPED = "reliableStored", "deduped"
"""Counts that a group fills in: messages that became rows, and such that were rows before."""

MAX_REASON = 200
"""Characters of a reason: a peer may give a long one."""

ROW_BYTES = 256
"""What a row takes in memory and on the disk beside its texts, about."""

EventCounts = dict[str, int | None]
"""By name; what is not there was not counted."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One row. ``timestamp`` in microseconds since 1970, UTC; ``last`` is inclusive.

    ``counts`` are of one channel, or of all channels of one connection, in one life of it.
    ``first`` and ``last`` are message numbers as the rows of messages show them: of datagram
    messages for ``nacked``, logical ones for ``gap``, ``repeated`` and ``rejected``; offsets of the
    log that the reason names for ``skipped``.
    """

    kind: str
    timestamp: int
    connection: str
    producer: str | None = None
    channel: str | None = None
    channel_id: int | None = None
    parent_channel_id: int | None = None
    parent_message: int | None = None
    reason: str | None = None
    counts: EventCounts | None = None
    first: int | None = None
    last: int | None = None

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        texts = (self.connection, self.producer, self.channel, self.reason)
        return ROW_BYTES + sum(len(text) for text in texts if text)

    @property
    def short_reason(self) -> str | None:
        """As it is stored: of a peer it may hold what is no text."""
        if self.reason is None:
            return None
        return self.reason[:MAX_REASON].encode("utf-8", "backslashreplace").decode()


_VIEW = (
    ("timestamp", TIMESTAMP),
    ("kind", pa.string()),
    ("connectionId", pa.string()),
    ("channelId", pa.int64()),
    ("channel", pa.string()),
    ("producer", pa.string()),
    ("reason", pa.string()),
)
_NUMBERS = (("first", pa.int64()), ("last", pa.int64()))
_PARENT = (("parentChannelId", pa.int64()), ("parentMessageNum", pa.int64()))
_PLACE = (("partition", pa.int32()), ("offset", pa.int64()))


class EventSchema:
    """The events of one protocol.

    Args:
        kinds: its own kinds, beside `COMMON_KINDS`.
        counts: what it counts, in the order of the columns, each with its value where nothing was
            counted; `STORED` and `DEDUPED` among them where its producers keep logical numbers.
    """

    def __init__(self, kinds: Sequence[str], counts: EventCounts) -> None:
        self.kinds = frozenset({*COMMON_KINDS, *kinds})
        self.counts = dict(counts)
        struct = pa.struct([pa.field(name, pa.int64()) for name in self.counts])
        own = (*_VIEW, ("counts", struct), *_NUMBERS)
        self.stored = pa.struct([pa.field(*each) for each in (*own, *_PARENT)])
        """The type of the column ``event``."""
        self.rows = pa.schema([pa.field(*each) for each in (*own, *_PLACE)])
        """What readers get: exactly what Spark makes of the schema of ``view=events``."""

    def to_array(self, events: Sequence[LoggedEvent]) -> pa.StructArray:
        """
        Raises:
            ValueError: an event of a kind that the protocol does not have.
        """
        unknown = {event.kind for event in events} - self.kinds
        if unknown:
            raise ValueError(f"events of the kinds {sorted(unknown)}")
        values: dict[str, list[Any]] = {
            "timestamp": [event.timestamp for event in events],
            "kind": [event.kind for event in events],
            "connectionId": [event.connection for event in events],
            "channelId": [event.channel_id for event in events],
            "channel": [event.channel for event in events],
            "producer": [event.producer for event in events],
            "reason": [event.short_reason for event in events],
            "counts": [
                None if event.counts is None else self.counts | event.counts for event in events
            ],
            "first": [event.first for event in events],
            "last": [event.last for event in events],
            "parentChannelId": [event.parent_channel_id for event in events],
            "parentMessageNum": [event.parent_message for event in events],
        }
        return pa.StructArray.from_arrays(
            [array_of(values[field.name], field.type) for field in self.stored],
            fields=list(self.stored),
        )

    def expand(
        self, values: Mapping[str, pa.Array], partition: int, first_offset: int, count: int
    ) -> pa.RecordBatch:
        """The rows of ``count`` events of a log, of which these are the columns."""
        place = {
            "partition": constant(partition, count),
            "offset": counted(first_offset, count),
        }
        columns = [place.get(field.name, values.get(field.name)) for field in self.rows]
        return pa.RecordBatch.from_arrays(columns, schema=self.rows)
