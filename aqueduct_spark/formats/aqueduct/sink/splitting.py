"""From record batches to what goes on each channel: pure, and by columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from aqueduct_core.primitives.ranges import Numbers
from aqueduct_core.spool.arrays import numeric_array
from aqueduct_spark.formats.aqueduct.options import CONTROL_COLUMNS
from aqueduct_spark.formats.aqueduct.sink.destinations import destinations
from aqueduct_spark.formats.aqueduct.sink.row_headers import row_headers
from aqueduct_spark.formats.aqueduct.sink.sources import Places, SourceColumns
from aqueduct_spark.write.arrow_cuts import ArrowCutter, ArrowMessage
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.payloads import payload_column
from aqueduct_spark.write.row_columns import SLICE_BYTES, slices


@dataclass(frozen=True, slots=True)
class RowPlan:
    """How rows become messages. ``channel`` beats the column of that name; ``by_source``: they
    have columns that say where they come from."""

    channel: str | None
    reliability: str
    payload_format: str
    max_message_bytes: int
    by_source: bool = False


class Splitter:
    """Splits the batches of one task; counts its rows. Ends with `rest`.

    What goes on each channel follows from the rows in their order, and not from the batches.
    """

    def __init__(self, plan: RowPlan) -> None:
        self._plan = plan
        self._next = 0
        self._sources = SourceColumns() if plan.by_source else None
        self._cutter: ArrowCutter | None = None
        if plan.payload_format == "arrow":
            self._cutter = ArrowCutter(
                lambda rows: destinations(rows, plan.channel, plan.reliability),
                plan.max_message_bytes,
                CONTROL_COLUMNS,
            )

    def split(self, batch: pa.RecordBatch) -> Iterator[list[RowBatch]]:
        """The messages of a batch by destination, a slice of the batch at a time.

        Raises:
            SchemaMismatch: REQUIRED for a null value, COLUMN_TYPE for a value that is none.
            SinkFailed: MESSAGE_TOO_LARGE; ROW_REPEATED for two rows with one place in a source.
        """
        if self._cutter is not None:
            yield from _batches(self._cutter.push(batch))
            return
        for piece in slices(batch):
            places = None
            if self._sources is not None:
                piece, places = self._sources.take(piece)
            found = destinations(
                piece,
                self._plan.channel,
                self._plan.reliability,
                None if places is None else (places.codes, places.names),
            )
            yield list(self._plain(piece, found, places))

    def rest(self) -> Iterator[list[RowBatch]]:
        """What was kept for messages that are not full, when no more batches come. Raises: as
        `split`."""
        if self._cutter is not None:
            yield from _batches(self._cutter.rest())

    def _plain(
        self,
        piece: pa.RecordBatch,
        found: Iterator[tuple[Destination, Numbers | None]],
        origin: Places | None,
    ) -> Iterator[RowBatch]:
        plan, base = self._plan, self._next
        values = payload_column(piece, plan.payload_format, plan.max_message_bytes, CONTROL_COLUMNS)
        headers = row_headers(piece)
        for destination, rows in found:
            if rows is None:
                payloads, places = values.to_pylist(), range(base, base + piece.num_rows)
                yield RowBatch(
                    destination, payloads, places, headers, self._numbers(destination, origin)
                )
                continue
            chosen = None if headers is None else headers.take(rows.tolist())
            yield RowBatch(
                destination,
                values.take(numeric_array(rows)).to_pylist(),
                (rows + base).tolist(),
                chosen or None,
                self._numbers(destination, origin, rows),
            )
        self._next += piece.num_rows

    def _numbers(
        self, destination: Destination, origin: Places | None, rows: Numbers | None = None
    ) -> Numbers | None:
        if origin is None or self._sources is None or not destination.source:
            return None
        offsets = origin.offsets if rows is None else origin.offsets[rows]
        self._sources.note(destination, offsets)
        return offsets


def _batches(messages: Iterator[ArrowMessage]) -> Iterator[list[RowBatch]]:
    """A batch for messages of a destination in a row, about ``SLICE_BYTES`` at a time."""
    ready: list[ArrowMessage] = []
    size = 0
    for message in messages:
        ready.append(message)
        size += len(message.payload)
        if size >= SLICE_BYTES:
            yield _grouped(ready)
            ready, size = [], 0
    if ready:
        yield _grouped(ready)


def _grouped(messages: list[ArrowMessage]) -> list[RowBatch]:
    return [
        RowBatch(destination, [one.payload for one in run], [one.row for one in run])
        for destination, found in groupby(messages, lambda message: message.destination)
        for run in [list(found)]
    ]
