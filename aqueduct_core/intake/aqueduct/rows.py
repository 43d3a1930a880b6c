"""Aqueduct's rows: the columns of a stored message and of an event, and what readers make of them.

Stored: what differs from message to message is a plain column; what all messages of a batch share
(channel, producer, receive time, …) is one run-end encoded column ``source``, so that small
messages do not carry it each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from aqueduct_core.aqueduct.conventions.dedupe import numbering
from aqueduct_core.aqueduct.conventions.headers import key_to_text
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.message_batch import Attachment, Headers
from aqueduct_core.intake.storage.batches import MAX_NUMBER, BatchSlice, ChannelSource
from aqueduct_core.intake.storage.columns import array_of, constant, counted, runs
from aqueduct_core.intake.storage.event_log import (
    DEDUPED,
    STORED,
    TIMESTAMP,
    EventSchema,
    LoggedEvent,
)
from aqueduct_core.intake.storage.rows import (
    EVENT,
    RowFormat,
    number_array,
    payload_array,
    run_of,
    run_of_each_row,
    runs_of_source,
)
from aqueduct_core.primitives.ranges import Range

CANCELLED, CLOSED, LOST = "cancelled", "closed", "lost"
RELIABLE_SENT, UNRELIABLE_SENT = "reliableSent", "unreliableSent"
ACKED, UNACKED, LATE = "acked", "nacked", "late"

EVENTS = EventSchema(
    (CANCELLED, CLOSED, LOST),
    {
        RELIABLE_SENT: None,
        STORED: 0,
        UNRELIABLE_SENT: 0,
        ACKED: 0,
        UNACKED: 0,
        LATE: 0,
        DEDUPED: 0,
    },
)
"""``reliableSent`` is what the sender declared with its finish (null: it did not finish), of which
``reliableStored`` became rows and ``deduped`` were rows before. ``unreliableSent`` is what it
declared as sent in datagrams, of which ``acked`` are rows and ``nacked`` were lost or had no room;
at a finish they add up. ``late`` came after they were nacked."""

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
"""Header data in wire order, repeats kept. Keys that are not UTF-8 are shown with escapes."""

ATTACHMENTS = pa.list_(
    pa.field(
        "element",
        pa.struct(
            [
                pa.field("channelId", pa.int64()),
                pa.field("direction", pa.string()),
                pa.field("headers", HEADERS),
            ]
        ),
    )
)
"""``direction`` as the intake sees it: ``receive`` (messages flow to it) or ``send``."""

SOURCE = pa.struct(
    [
        pa.field("channel", pa.string()),
        pa.field("producer", pa.string()),
        pa.field("reliable", pa.bool_()),
        pa.field("timestamp", TIMESTAMP),
        pa.field("connectionId", pa.string()),
        pa.field("channelId", pa.int64()),
        pa.field("parentChannelId", pa.int64()),
        pa.field("parentMessageNum", pa.int64()),
        pa.field("channelHeaders", HEADERS),
        pa.field("connectionHeaders", HEADERS),
    ]
)

COLUMNS = (
    pa.field("value", pa.binary()),
    pa.field("messageNum", pa.int64()),
    pa.field("headers", HEADERS),
    pa.field("attachments", ATTACHMENTS),
    pa.field("source", pa.run_end_encoded(pa.int32(), SOURCE)),
)

_FIRST: tuple[tuple[str, pa.DataType], ...] = (
    ("value", pa.binary()),
    ("channel", pa.string()),
    ("producer", pa.string()),
    ("messageNum", pa.int64()),
    ("reliable", pa.bool_()),
    ("partition", pa.int32()),
    ("offset", pa.int64()),
    ("timestamp", TIMESTAMP),
)
_HEADERS = (
    ("headers", HEADERS),
    ("channelHeaders", HEADERS),
    ("connectionHeaders", HEADERS),
)
_METADATA = (
    ("connectionId", pa.string()),
    ("channelId", pa.int64()),
    ("parentChannelId", pa.int64()),
    ("parentMessageNum", pa.int64()),
    ("attachments", ATTACHMENTS),
)


@dataclass(frozen=True, slots=True)
class AqueductSource(ChannelSource):
    """``run_start`` is the number at which its producer's run began, as far as that is said.
    ``parent_message`` is the number of the message that it was attached to, as the row of that
    message shows it; the entrypoint has no parent."""

    run_start: int = 0
    parent_channel_id: int | None = None
    parent_message: int | None = None
    channel_headers: Headers = ()
    connection_headers: Headers = ()

    @property
    def space(self) -> Range:
        """Of a sink those of one batch and mode, otherwise all from the beginning of the run on."""
        if self.floor is not None:
            return numbering.space(self.start)
        return min(self.run_start, self.start), MAX_NUMBER

    @property
    def parent(self) -> tuple[int | None, int | None]:
        return self.parent_channel_id, self.parent_message


class AqueductRowFormat(RowFormat):
    """The present format; it reads the earlier one, too."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, EVENTS)

    def as_stored(self, schema: pa.Schema | None) -> RowFormat:
        return EARLIER_ROWS if schema is not None and schema.equals(EARLIER_ROWS.schema) else self

    def columns(self, slices: Sequence[BatchSlice]) -> list[pa.Array]:
        rows = sum(each.high - each.low for each in slices)
        firsts, ends = runs_of_source(slices)
        return [
            payload_array(slices),
            number_array(slices),
            _optional(slices, rows, HEADERS, lambda batch: batch.headers, _header_list),
            _optional(slices, rows, ATTACHMENTS, lambda batch: batch.attachments, _attachment_list),
            runs(ends, _source_array(firsts)),
        ]

    def received(self, batch: pa.RecordBatch, row: int) -> int:
        source = batch.column("source")
        return int(source.values.field("timestamp")[run_of(source, row)].value or 0)

    def expand(
        self,
        batch: pa.RecordBatch,
        partition: int,
        first_offset: int,
        include_headers: bool,
        include_metadata: bool,
    ) -> pa.RecordBatch:
        count = batch.num_rows
        source = batch.column("source")
        runs = source.values.flatten()
        positions = run_of_each_row(source)
        schema = row_schema(include_headers, include_metadata)
        columns = []
        for field in schema:
            if field.name == "partition":
                column = constant(partition, count)
            elif field.name == "offset":
                column = counted(first_offset, count)
            elif (index := SOURCE.get_field_index(field.name)) >= 0:
                column = runs[index].take(positions)
            else:
                column = batch.column(field.name)
            columns.append(column)
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def listed(self, row: dict[str, Any]) -> dict[str, Any]:
        """In the form of ``aqueduct listen -J``."""
        return {
            "connection": row["connectionId"],
            "channel": row["channelId"],
            "name": row["channel"],
            "producer": row["producer"],
            "num": row["messageNum"],
            "reliable": row["reliable"],
            "headers": [[pair["key"], pair["value"]] for pair in row["headers"] or ()],
            "attachments": [each["channelId"] for each in row["attachments"] or ()],
            "value": row["value"],
            "timestamp": row["timestamp"],
            "partition": row["partition"],
            "offset": row["offset"],
        }

    def expand_events(
        self, batch: pa.RecordBatch, partition: int, first_offset: int
    ) -> pa.RecordBatch:
        if EVENT in batch.schema.names:
            return super().expand_events(batch, partition, first_offset)
        return _expand_earlier(batch, partition, first_offset)

    def _timestamp(self, batch: pa.RecordBatch, row: int) -> int:
        if EVENT in batch.schema.names:
            return super()._timestamp(batch, row)
        return self.received(batch, row)


class EarlierRowFormat(AqueductRowFormat):
    """The format of spools that earlier releases made, which stay as they are, so that these can
    go on with them: events are rows of messages, with compact JSON as their ``value`` and the
    number of their log as ``messageNum``."""

    def __init__(self) -> None:
        super().__init__()
        self.schema = pa.schema(COLUMNS)

    def as_stored(self, schema: pa.Schema | None) -> RowFormat:
        return self

    def to_rows(self, slices: Sequence[BatchSlice]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(self.columns(slices), schema=self.schema)

    def to_events(self, events: Sequence[LoggedEvent], log: int) -> pa.RecordBatch:
        count = len(events)
        stored = EVENTS.to_array(events)
        known = {field.name: stored.field(i) for i, field in enumerate(EVENTS.stored)}
        sources = pa.StructArray.from_arrays(
            [known.get(field.name, pa.nulls(count, field.type)) for field in SOURCE],
            fields=list(SOURCE),
        )
        columns = [
            array_of([_earlier_value(event) for event in events], pa.binary()),
            array_of([log] * count, pa.int64()),
            pa.nulls(count, HEADERS),
            pa.nulls(count, ATTACHMENTS),
            runs(range(1, count + 1), sources),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _earlier_value(event: LoggedEvent) -> bytes:
    content: dict[str, Any] = {"kind": event.kind}
    if event.reason is not None:
        content["reason"] = event.short_reason
    if event.counts is not None:
        content["counts"] = EVENTS.counts | event.counts
    if event.first is not None:
        content["first"], content["last"] = event.first, event.last
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _expand_earlier(batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
    """Raises: ValueError for rows that are none of events."""
    contents = [json.loads(value) for value in batch.column("value").to_pylist()]
    source = batch.column("source")
    runs, positions = source.values.flatten(), run_of_each_row(source)
    values = {
        name: array_of([content.get(name) for content in contents], EVENTS.stored.field(name).type)
        for name in ("kind", "reason", "counts", "first", "last")
    }
    for index, field in enumerate(SOURCE):
        values[field.name] = runs[index].take(positions)
    return EVENTS.expand(values, partition, first_offset, batch.num_rows)


@cache
def row_schema(include_headers: bool, include_metadata: bool) -> pa.Schema:
    """Of the rows of messages: exactly what Spark makes of the read schema."""
    fields = _FIRST
    if include_headers:
        fields += _HEADERS
    if include_metadata:
        fields += _METADATA
    return pa.schema([pa.field(name, kind) for name, kind in fields])


def _header_list(headers: Headers, carrier: int = 0) -> list[dict[str, Any]]:
    return [{"key": key_to_text(key), "value": value} for key, value in headers]


def _attachment_list(attachments: tuple[Attachment, ...], carrier: int) -> list[dict[str, Any]]:
    return [
        {
            "channelId": attachment.channel,
            "direction": "receive" if same_way(attachment.channel, carrier) else "send",
            "headers": _header_list(attachment.headers) or None,
        }
        for attachment in attachments
    ]


def same_way(channel: int, carrier: int) -> bool:
    """Whether two channels flow the same way: an attachment to the intake, as its carrier does."""
    return chanid.sender(channel) is chanid.sender(carrier)


def _optional(
    slices: Sequence[BatchSlice],
    rows: int,
    kind: pa.DataType,
    column: Any,
    convert: Any,
) -> pa.Array:
    """A column that only few messages have a value of; most batches hold none at all."""
    if not any(column(each.batch) for each in slices):
        return pa.nulls(rows, kind)
    values: list[Any] = [None] * rows
    row = 0
    for each in slices:
        found: Mapping[int, Any] = column(each.batch)
        for index, value in found.items():
            if each.low <= index < each.high and value:
                values[row + index - each.low] = convert(value, each.batch.channel)
        row += each.high - each.low
    return array_of(values, kind)


def _source_array(slices: Sequence[BatchSlice]) -> pa.StructArray:
    own: list[pa.Array] | tuple[pa.Array, ...]
    if len(slices) == 1:
        own = _one_source(_source_of(slices[0]))
    else:
        own = _sources([_source_of(each) for each in slices])
    columns = dict(zip(_OF_SOURCE, own, strict=True))
    columns["reliable"] = array_of([each.batch.reliable for each in slices], pa.bool_())
    columns["timestamp"] = array_of([each.timestamp for each in slices], TIMESTAMP)
    children = [columns[name] for name in _SOURCE]
    return pa.Array.from_buffers(SOURCE, len(slices), [None], children=children)


def _source_of(each: BatchSlice) -> AqueductSource:
    assert isinstance(each.source, AqueductSource)
    return each.source


@lru_cache(maxsize=256)
def _one_source(source: AqueductSource) -> tuple[pa.Array, ...]:
    """The same again for each group of a channel that sends alone."""
    return tuple(_sources([source]))


def _sources(sources: Sequence[AqueductSource]) -> list[pa.Array]:
    """What is the same for all messages of a channel, in the order of `_OF_SOURCE`."""
    rows = [
        (
            source.channel,
            source.producer,
            source.connection,
            source.channel_id,
            source.parent_channel_id,
            source.parent_message,
            _header_list(source.channel_headers) or None,
            _header_list(source.connection_headers) or None,
        )
        for source in sources
    ]
    return [
        array_of(values, _SOURCE[name].type)
        for name, values in zip(_OF_SOURCE, zip(*rows, strict=True), strict=True)
    ]


_SOURCE = {field.name: field for field in SOURCE}
_OF_SOURCE = (
    "channel",
    "producer",
    "connectionId",
    "channelId",
    "parentChannelId",
    "parentMessageNum",
    "channelHeaders",
    "connectionHeaders",
)


EARLIER_ROWS = EarlierRowFormat()
ROWS = AqueductRowFormat()
"""What readers and new spools use."""
