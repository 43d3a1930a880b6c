"""From what an intake of Telehash stores to the rows of packets and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.errors import ChannelEnded
from aqueduct_core.intake.storage.event_log import FINISHED, OPENED
from aqueduct_core.intake.storage.rows import EVENT
from aqueduct_core.intake.telehash.rows import CANCELLED, FAILED, ROWS, TIMEOUT
from aqueduct_core.spool.arrays import text_array
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.options.read_parts import RowOptions

BROKEN_OFF = (CANCELLED, FAILED, TIMEOUT)
"""Kinds of events of channels that are over before their end."""


class TelehashRows(RowMapping):
    """The channel of a row is its type, and its producer the peer."""

    stored_schema = ROWS.schema

    def messages(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, rows: RowOptions
    ) -> pa.RecordBatch:
        return ROWS.expand(batch, partition, first_offset, False, False)

    def events(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        return ROWS.expand_events(batch, partition, first_offset)

    def received_at(self, batch: pa.RecordBatch, row: int) -> int:
        return ROWS.newest_timestamp(batch.slice(row, 1))

    def selectable(self, batch: pa.RecordBatch) -> pa.RunEndEncodedArray:
        if EVENT in batch.schema.names and not batch.column(EVENT).values.null_count:
            return batch.column(EVENT)
        channel = batch.column("channel")
        fields = [channel.values.field("type"), channel.values.field("peer")]
        named = pa.StructArray.from_arrays(fields, ["channel", "producer"])
        return pa.RunEndEncodedArray.from_buffers(
            pa.run_end_encoded(channel.type.run_end_type, named.type),
            len(channel),
            [None],
            offset=channel.offset,
            children=[channel.run_ends, named],
        )

    def shown(self, message: Mapping[str, Any]) -> str:
        seq = "a packet" if message["seq"] is None else f"packet {message['seq']}"
        return f"{seq} of a channel of type '{message['type']}'"

    def event_checks(
        self, *, on_cancel: str, fail_on_data_loss: bool
    ) -> list[Callable[[pa.RecordBatch, int], None]]:
        return [_check_not_broken_off] if on_cancel == "fail" else []

    def open_channels(self, events: Iterable[pa.RecordBatch], names: Sequence[str]) -> list[str]:
        waiting = dict.fromkeys(names)
        for batch in events:
            for event in batch.to_pylist():
                if event["kind"] == OPENED:
                    waiting[event["channel"]] = None
                elif event["kind"] == FINISHED or event["kind"] in BROKEN_OFF:
                    waiting.pop(event["channel"], None)
        return list(waiting)


def _check_not_broken_off(events: pa.RecordBatch, intake: int) -> None:
    ends = events.filter(pc.is_in(events.column("kind"), text_array(BROKEN_OFF)))
    if not ends.num_rows:
        return
    event = ends.slice(0, 1).to_pylist()[0]
    raise ChannelEnded(
        "CANCELLED",
        f"A channel of type '{event['channel']}' of peer '{event['producer']}' was over before its "
        f"end, {event['kind']}: {event['reason']} (line {event['connectionId']}, event "
        f"{event['offset']} of intake {intake}), and onCancel is fail",
        "Set onCancel=keep to go on with what was stored of it, or drop what this query wrote",
    )
