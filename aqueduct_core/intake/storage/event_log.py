"""What happened on connections and channels, as rows of the log of events.

A row has the columns of a message: ``value`` is compact JSON with the keys ``kind``, ``reason``,
``counts``, ``first`` and ``last`` (those that apply), ``source`` says where and when, and
``messageNum`` is the number of the log itself, so that a row is complete without its place.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from aqueduct_core.intake.storage.schema import (
    ATTACHMENTS,
    HEADERS,
    SOURCE,
    SPOOL_SCHEMA,
    TIMESTAMP,
)

EventKind: TypeAlias = Literal[
    "connected",
    "disconnected",
    "opened",
    "finished",
    "cancelled",
    "closed",
    "lost",
    "nacked",
    "gap",
    "repeated",
    "rejected",
    "skipped",
]

MAX_REASON = 200
"""Characters of a reason: a peer may give a long one."""

ROW_BYTES = 256
"""What a row takes in memory and on the disk beside its texts, about."""


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Messages of one channel, or of all channels of one connection, in one life of it.

    ``reliable_sent`` is what the sender declared with its finish (None: it did not finish), of
    which ``reliable_stored`` became rows and ``deduped`` were rows before. ``unreliable_sent`` is
    what it declared as sent in datagrams, of which ``acked`` are rows and ``nacked`` were lost or
    had no room; at a finish they add up. ``late`` came after they were nacked.
    """

    reliable_sent: int | None = None
    reliable_stored: int = 0
    unreliable_sent: int = 0
    acked: int = 0
    nacked: int = 0
    late: int = 0
    deduped: int = 0

    def to_json(self) -> dict[str, int | None]:
        return {
            "reliableSent": self.reliable_sent,
            "reliableStored": self.reliable_stored,
            "unreliableSent": self.unreliable_sent,
            "acked": self.acked,
            "nacked": self.nacked,
            "late": self.late,
            "deduped": self.deduped,
        }


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One row. ``timestamp`` in microseconds since 1970, UTC; ``last`` is inclusive.

    ``first`` and ``last`` are message numbers as the rows of messages show them: of datagram
    messages for ``nacked``, logical ones for ``gap``, ``repeated``
    and ``rejected``; offsets of the log that the reason names for
    ``skipped``.
    """

    kind: EventKind
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

    def value(self) -> bytes:
        if self.reason is None and self.counts is None and self.first is None:
            return b'{"kind":"%b"}' % self.kind.encode()
        content: dict[str, Any] = {"kind": self.kind}
        if self.reason is not None:
            reason = self.reason[:MAX_REASON]  # of a peer, so it may hold what is no text
            content["reason"] = reason.encode("utf-8", "backslashreplace").decode()
        if self.counts is not None:
            content["counts"] = self.counts.to_json()
        if self.first is not None:
            content["first"], content["last"] = self.first, self.last
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def to_event_batch(events: Sequence[LoggedEvent], log: int) -> pa.RecordBatch:
    """The rows of ``events`` in their order, as the spool stores them in log ``log``."""
    count = len(events)
    source = {
        "channel": [event.channel for event in events],
        "producer": [event.producer for event in events],
        "connectionId": [event.connection for event in events],
        "channelId": [event.channel_id for event in events],
        "parentChannelId": [event.parent_channel_id for event in events],
        "parentMessageNum": [event.parent_message for event in events],
    }
    sources = pa.StructArray.from_arrays(
        [
            pa.array([event.timestamp for event in events], pa.int64()).cast(TIMESTAMP)
            if field.type == TIMESTAMP
            else pa.array(source[field.name], field.type)
            if field.name in source
            else pa.nulls(count, field.type)
            for field in SOURCE
        ],
        fields=list(SOURCE),
    )
    ends = pa.array(range(1, count + 1), pa.int32())
    columns = [
        pa.array([event.value() for event in events], pa.binary()),
        pa.array([log] * count, pa.int64()),
        pa.nulls(count, HEADERS),
        pa.nulls(count, ATTACHMENTS),
        pa.RunEndEncodedArray.from_arrays(ends, sources),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SPOOL_SCHEMA)
