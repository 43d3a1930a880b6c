"""From what an intake of QUICR stores to the rows of objects and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.errors import ChannelEnded, DataLoss
from aqueduct_core.intake.quicr.rows import CANCELLED, LOST, READINGS, ROWS
from aqueduct_core.intake.storage.event_log import FINISHED, OPENED
from aqueduct_core.intake.storage.rows import EVENT
from aqueduct_core.spool.arrays import text_array, text_scalar
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.formats.quicr.options import QuicrRead
from aqueduct_spark.options.read_parts import RowOptions


class QuicrRows(RowMapping):
    """The channel of a row is its URL, and it has no producer."""

    stored_schema = ROWS.schema

    def messages(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, rows: RowOptions
    ) -> pa.RecordBatch:
        own: QuicrRead = rows.own
        form = READINGS[own.reading]
        return form.expand(batch, partition, first_offset, False, False)

    def events(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        return ROWS.expand_events(batch, partition, first_offset)

    def received_at(self, batch: pa.RecordBatch, row: int) -> int:
        return ROWS.newest_timestamp(batch.slice(row, 1))

    def selectable(self, batch: pa.RecordBatch) -> pa.RunEndEncodedArray:
        if EVENT in batch.schema.names and not batch.column(EVENT).values.null_count:
            return batch.column(EVENT)
        media = batch.column("media")
        urls = media.values.field("url")
        named = pa.StructArray.from_arrays(
            [urls, text_array([""] * len(urls))], ["channel", "producer"]
        )
        return pa.RunEndEncodedArray.from_buffers(
            pa.run_end_encoded(media.type.run_end_type, named.type),
            len(media),
            [None],
            offset=media.offset,
            children=[media.run_ends, named],
        )

    def payloads(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        holes = messages.column("is_hole")
        return messages.filter(pc.invert(holes)) if pc.any(holes).as_py() else messages

    def shown(self, message: Mapping[str, Any]) -> str:
        return f"object ({message['group_id']}, {message['object_id']}) of '{message['url']}'"

    def event_checks(
        self, *, on_cancel: str, fail_on_data_loss: bool
    ) -> list[Callable[[pa.RecordBatch, int], None]]:
        checks: list[Callable[[pa.RecordBatch, int], None]] = []
        if on_cancel == "fail":
            checks.append(_check_not_cancelled)
        if fail_on_data_loss:
            checks.append(_check_not_lost)
        return checks

    def open_channels(self, events: Iterable[pa.RecordBatch], names: Sequence[str]) -> list[str]:
        waiting = dict.fromkeys(names)
        for batch in events:
            for event in batch.to_pylist():
                if event["kind"] == OPENED:
                    waiting[event["channel"]] = None
                elif event["kind"] in (FINISHED, CANCELLED):
                    waiting.pop(event["channel"], None)
        return list(waiting)


def _check_not_cancelled(events: pa.RecordBatch, intake: int) -> None:
    event = _first(events, CANCELLED)
    if event is not None:
        raise ChannelEnded(
            "CANCELLED",
            f"Media '{event['channel']}' was cancelled: {event['reason']} (connection "
            f"{event['connectionId']}, event {event['offset']} of intake {intake}), and onCancel "
            "is fail",
            "Set onCancel=keep to go on with what was stored of it, or drop what this query wrote",
        )


def _check_not_lost(events: pa.RecordBatch, intake: int) -> None:
    event = _first(events, LOST)
    if event is not None:
        raise DataLoss(
            "RANGE_GONE",
            f"Of media '{event['channel']}' {event['reason']} (connection "
            f"{event['connectionId']}, event {event['offset']} of intake {intake})",
            "Set failOnDataLoss=false to go on behind them",
        )


def _first(events: pa.RecordBatch, kind: str) -> dict[str, Any] | None:
    found = events.filter(pc.equal(events.column("kind"), text_scalar(kind)))
    if not found.num_rows:
        return None
    event: dict[str, Any] = found.slice(0, 1).to_pylist()[0]
    return event
