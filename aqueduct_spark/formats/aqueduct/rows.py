"""From what an intake of Aqueduct stores to the rows of messages and events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.errors import ChannelEnded
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.storage.rows import EVENT
from aqueduct_core.spool.arrays import text_scalar
from aqueduct_spark.formats.aqueduct.options import AqueductRead
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.options.read_parts import RowOptions

ENTRYPOINT = "0"
"""The name of entrypoints. An empty message on one carries channels, and is no payload."""

ENDS = frozenset({"finished", "cancelled", "closed", "lost"})
"""Kinds of events after which nothing comes on a channel any more."""


class AqueductRows(RowMapping):
    """Headers and attachments are columns of their own; what the messages of a run share is stored
    once for the run, in the column ``source``."""

    stored_schema = ROWS.schema

    def messages(
        self, batch: pa.RecordBatch, partition: int, first_offset: int, rows: RowOptions
    ) -> pa.RecordBatch:
        own: AqueductRead = rows.own
        return ROWS.expand(
            batch, partition, first_offset, own.include_headers, own.include_metadata
        )

    def events(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        return ROWS.expand_events(batch, partition, first_offset)

    def received_at(self, batch: pa.RecordBatch, row: int) -> int:
        return ROWS.newest_timestamp(batch.slice(row, 1))

    def selectable(self, batch: pa.RecordBatch) -> pa.RunEndEncodedArray:
        if EVENT in batch.schema.names and not batch.column(EVENT).values.null_count:
            return batch.column(EVENT)
        return batch.column("source")  # messages; and events of an earlier release

    def payloads(self, messages: pa.RecordBatch) -> pa.RecordBatch:
        carriers = pc.and_(
            pc.equal(messages.column("channel"), text_scalar(ENTRYPOINT)),
            pc.invert(pc.cast(pc.binary_length(messages.column("value")), pa.bool_())),
        )
        return messages.filter(pc.invert(carriers)) if pc.any(carriers).as_py() else messages

    def event_checks(
        self, *, on_cancel: str, fail_on_data_loss: bool
    ) -> list[Callable[[pa.RecordBatch, int], None]]:
        return [_check_not_cancelled] if on_cancel == "fail" else []

    def open_channels(self, events: Iterable[pa.RecordBatch], names: Sequence[str]) -> list[str]:
        finished: set[str] = set()
        opened: dict[tuple[str, int], str] = {}
        for batch in events:
            for event in batch.to_pylist():
                key = (event["connectionId"], event["channelId"])
                if event["kind"] == "opened":
                    opened[key] = event["channel"]
                elif event["kind"] in ENDS:
                    opened.pop(key, None)
                    if event["kind"] == "finished":
                        finished.add(event["channel"])
        waiting = [name for name in names if name not in finished]
        return list(dict.fromkeys([*waiting, *(name for name in opened.values() if name)]))


def _check_not_cancelled(events: pa.RecordBatch, intake: int) -> None:
    cancelled = events.filter(pc.equal(events.column("kind"), "cancelled"))
    if not cancelled.num_rows:
        return
    event = cancelled.slice(0, 1).to_pylist()[0]
    raise ChannelEnded(
        "CANCELLED",
        f"Channel '{event['channel']}' of producer '{event['producer']}' was cancelled "
        f"(connection {event['connectionId']}, event {event['offset']} of intake {intake}), "
        "and onCancel is fail",
        "Set onCancel=keep to go on with what was stored of it, or drop what this query wrote",
    )
