"""The columns of a frame that goes out as packets: checked before any task runs, and split by the
types of channels."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BooleanType, DataType, StringType, StructType

from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_core.intake.telehash.channels import check_type
from aqueduct_core.intake.telehash.marks import MARK
from aqueduct_core.primitives.ranges import Numbers
from aqueduct_core.spool.arrays import numeric_array
from aqueduct_spark.formats.telehash.options import CONTROL_COLUMNS
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.payloads import payload_column
from aqueduct_spark.write.row_columns import (
    by_text,
    check_row_columns,
    refuse_rows,
    slices,
)

MAX_PACKET = 1_472
"""Bytes of the largest packet on any line (P1): a row that has more is not turned into a Python
object. What fits is for the line to say that it goes on."""

_CONTROL: dict[str, tuple[DataType, ...]] = {
    "js": (StringType(),),
    "type": (StringType(),),
    "end": (BooleanType(),),
}


@dataclass(frozen=True, slots=True)
class PacketRows(RowBatch):
    """Rows of one type in order, the type the channel of their destination. ``js`` has the JSON of
    each row that has some, None where no row has; so with ``ends``: of each row, whether its
    channel ends with it."""

    js: list[dict[str, Any] | None] | None = field(default=None, repr=False)
    ends: list[bool] | None = None

    def part(self, first: int, stop: int) -> PacketRows:
        if (first, stop) == (0, len(self.payloads)):
            return self
        return replace(
            self,
            payloads=self.payloads[first:stop],
            rows=self.rows[first:stop],
            js=None if self.js is None else self.js[first:stop],
            ends=None if self.ends is None else self.ends[first:stop],
        )


def check_columns(schema: StructType, payload_format: str, type: str | None) -> None:
    """Refuse a frame that cannot go out as packets.

    Raises:
        SchemaMismatch: COLUMN_MISSING, COLUMN_UNKNOWN or COLUMN_TYPE.
    """
    check_row_columns(schema, payload_format, _CONTROL, "packet")
    if type is None and "type" not in schema.fieldNames():
        raise SchemaMismatch(
            "COLUMN_MISSING",
            "Column 'type' is missing, and so is option 'type': a channel has a type",
            "Set option 'type', such as _chat, or select that of each row AS type",
        )


class TypeSplitter:
    """Splits the batches of one task by the types of their rows; counts these.

    Args:
        type: of all rows, whatever column ``type`` says; None: that.
        marked: the JSON of each packet says which row it is, so no row may say so itself.
    """

    def __init__(self, type: str | None, payload_format: str, *, marked: bool) -> None:
        self._type = type
        self._payload_format = payload_format
        self._reserved = frozenset(MARK) if marked else frozenset()
        self._next = 0

    def split(self, batch: pa.RecordBatch) -> Iterator[list[RowBatch]]:
        """
        Raises:
            SchemaMismatch: REQUIRED for a null, COLUMN_TYPE for a value that is none.
            SinkFailed: MESSAGE_TOO_LARGE.
        """
        for piece in slices(batch):
            yield list(self._pieces(piece))
            self._next += piece.num_rows

    def rest(self) -> Iterator[list[RowBatch]]:
        """Nothing is kept."""
        return iter(())

    def _pieces(self, piece: pa.RecordBatch) -> Iterator[PacketRows]:
        values = payload_column(piece, self._payload_format, sys.maxsize, CONTROL_COLUMNS)
        self._refuse_large(values)
        js = self._js(piece)
        ends = self._ends(piece)
        for type, rows in self._by_type(piece):
            whole = len(rows) == piece.num_rows
            taken = values if whole else values.take(numeric_array(rows))
            places = rows.tolist()
            yield PacketRows(
                Destination(type, "ordered"),
                taken.to_pylist(),
                [self._next + each for each in places],
                js=None if js is None else [js[each] for each in places],
                ends=None if ends is None else [ends[each] for each in places],
            )

    def _by_type(self, piece: pa.RecordBatch) -> Iterator[tuple[str, Numbers]]:
        if self._type is not None:
            yield self._type, np.arange(piece.num_rows)
            return
        column = piece.column("type")
        refuse_rows(
            pc.is_null(column), self._next, "has no type", "Filter these rows, or set option 'type'"
        )
        for type, rows in by_text(column):
            try:
                check_type(type)
            except ValueError as error:
                raise SchemaMismatch(
                    "COLUMN_TYPE",
                    f"Column 'type' holds '{type[:80]}'; it must be {error}",
                    "Correct the column, or set option 'type'",
                ) from None
            yield type, rows

    def _ends(self, piece: pa.RecordBatch) -> list[bool] | None:
        if "end" not in piece.schema.names:
            return None
        found: list[bool] = piece.column("end").fill_null(False).to_pylist()
        return found if any(found) else None

    def _js(self, piece: pa.RecordBatch) -> list[dict[str, Any] | None] | None:
        if "js" not in piece.schema.names:
            return None
        column = piece.column("js")
        self._refuse_large(column)
        if column.null_count == len(column):
            return None
        return [
            None if text is None else self._object(text, self._next + place)
            for place, text in enumerate(column.to_pylist())
        ]

    def _object(self, text: str, row: int) -> dict[str, Any]:
        try:
            found = json.loads(text, object_pairs_hook=_object_of, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise no_js(row, f"is no JSON: {error}") from None
        if not isinstance(found, dict):
            raise no_js(row, "is no JSON object")
        taken = sorted(self._reserved.intersection(found))
        if taken:
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column 'js' of row {row} of the task has a key '{taken[0]}'; by "
                f"{', '.join(MARK)} packets say which row they are",
                "Name it otherwise, or set idempotence=none",
            )
        return found

    def _refuse_large(self, values: pa.Array) -> None:
        sizes = pc.binary_length(values)
        large = pc.fill_null(pc.greater(sizes, MAX_PACKET), False)
        found = np.flatnonzero(large.to_numpy(zero_copy_only=False))
        if len(found):
            row = int(found[0])
            raise too_large(self._next + row, sizes[row].as_py(), MAX_PACKET)


def too_large(row: int, size: int, most: int) -> SinkFailed:
    """The packet of this row of the task would be of that size, at least."""
    return SinkFailed(
        "MESSAGE_TOO_LARGE",
        f"Row {row} of the task needs a packet of {size} bytes; one holds {most}",
        "Split the value: a packet is not divided on its way",
    )


def no_js(row: int, why: str) -> SchemaMismatch:
    """The JSON of this row of the task is none that a packet has."""
    return SchemaMismatch(
        "COLUMN_TYPE",
        f"Column 'js' of row {row} of the task {why}",
        'Give the text of an object, such as {"custom":"values"}, or null',
    )


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no number of JSON")
