"""The columns of a frame that is posted: checked before any task runs, and split by URL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from aqueduct_core.errors import SchemaMismatch
from aqueduct_core.quicr.media.fragment import HOLE, MAX_OBJECT
from aqueduct_core.quicr.media.position import MAX_ID
from aqueduct_core.quicr.urls import url_bytes, url_text
from aqueduct_core.spool.arrays import Values, numbers_in, numeric_array
from aqueduct_spark.formats.quicr.options import CONTROL_COLUMNS, LONGEST_URL
from aqueduct_spark.write.batches import Destination, RowBatch
from aqueduct_spark.write.payloads import payload_column
from aqueduct_spark.write.row_columns import (
    by_text,
    check_row_columns,
    refuse_rows,
    slices,
)

_NUMBERS = (ByteType(), ShortType(), IntegerType(), LongType())
_CONTROL: dict[str, tuple[DataType, ...]] = {
    "url": (StringType(),),
    "flags": _NUMBERS,
    "group_id": _NUMBERS,
    "object_id": _NUMBERS,
}


@dataclass(frozen=True, slots=True)
class ObjectRows(RowBatch):
    """Rows of one media in order, its URL (as text) the channel of their destination. ``groups``
    and ``objects`` are None where the rows do not say theirs."""

    flags: list[int] = field(default_factory=list)
    groups: list[int] | None = None
    objects: list[int] | None = None


def check_columns(schema: StructType, payload_format: str, url: str | None) -> None:
    """Refuse a frame that cannot be posted.

    Raises:
        SchemaMismatch: COLUMN_MISSING, COLUMN_UNKNOWN or COLUMN_TYPE.
    """
    names = schema.fieldNames()
    check_row_columns(schema, payload_format, _CONTROL, "object")
    if url is None and "url" not in names:
        raise SchemaMismatch(
            "COLUMN_MISSING",
            "Column 'url' is missing, and so is option 'url': a row belongs to a media",
            "Set option 'url', or select the URL of each row AS url",
        )
    if "object_id" in names and "group_id" not in names:
        raise SchemaMismatch(
            "COLUMN_MISSING",
            "Column 'group_id' is missing beside 'object_id': objects are numbered in their group",
            "Select the group AS group_id, or drop object_id",
        )


class UrlSplitter:
    """Splits the batches of one task by the URLs of their rows; counts these.

    Args:
        url: of all rows, whatever column ``url`` says; None: that.
    """

    def __init__(self, url: str | None, payload_format: str, max_message_bytes: int) -> None:
        self._url = url
        self._payload_format = payload_format
        self._longest = min(max_message_bytes, MAX_OBJECT)
        self._next = 0
        self._known: dict[str, str] = {}

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

    def _pieces(self, piece: pa.RecordBatch) -> Iterator[ObjectRows]:
        values = payload_column(piece, self._payload_format, self._longest, CONTROL_COLUMNS)
        self._refuse(
            pc.equal(pc.binary_length(values), 0),
            "has an empty value; an object has at least one byte",
            "Filter these rows: to the protocol an empty object is a hole",
        )
        flags = self._numbers(piece, "flags", HOLE - 1, default=0)
        groups = self._numbers(piece, "group_id", MAX_ID)
        objects = self._numbers(piece, "object_id", MAX_ID)
        for url, rows in self._by_url(piece):
            whole = len(rows) == piece.num_rows
            taken = values if whole else values.take(numeric_array(rows))
            yield ObjectRows(
                Destination(url, "ordered"),
                taken.to_pylist(),
                (rows + self._next).tolist(),
                flags=[0] * len(rows) if flags is None else flags[rows].tolist(),
                groups=None if groups is None else groups[rows].tolist(),
                objects=None if objects is None else objects[rows].tolist(),
            )

    def _by_url(self, piece: pa.RecordBatch) -> Iterator[tuple[str, Values]]:
        everything = np.arange(piece.num_rows)
        if self._url is not None:
            yield self._url, everything
            return
        column = piece.column("url")
        self._refuse(pc.is_null(column), "has no url", "Filter these rows, or set option 'url'")
        found: dict[str, list[Values]] = {}
        for text, rows in by_text(column):
            found.setdefault(self._known.get(text) or self._checked(text), []).append(rows)
        for url, parts in found.items():
            yield url, parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))

    def _checked(self, url: str) -> str:
        """The text that the URL has, of all that stand for it: it is one media."""
        try:
            size = len(url_bytes(url))
            reason = "" if 1 <= size <= LONGEST_URL else f"one of 1 to {LONGEST_URL} bytes"
        except ValueError as error:
            reason = str(error)
        if reason:
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column 'url' holds '{url[:80]}'; it must be {reason}",
                "Correct the column, or set option 'url'",
            )
        self._known[url] = text = url_text(url_bytes(url))
        return text

    def _numbers(
        self, piece: pa.RecordBatch, name: str, most: int, default: int | None = None
    ) -> Values | None:
        if name not in piece.schema.names:
            return None
        column = piece.column(name).cast(pa.int64())
        missing = pc.is_null(column)
        if default is None:
            self._refuse(missing, f"has no {name}", f"Give each row one, or drop {name}")
        values = np.where(missing.to_numpy(zero_copy_only=False), default or 0, numbers_in(column))
        wrong = np.flatnonzero((values < 0) | (values > most))
        if len(wrong):
            row = int(wrong[0])
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Row {self._next + row} of the task has {name} {int(values[row])}; it must be 0 "
                f"to {most}" + (", as 255 is a hole" if name == "flags" else ""),
                f"Correct the column {name}, or filter these rows",
            )
        return values

    def _refuse(self, wrong: pa.Array, what: str, remedy: str) -> None:
        """Raises: SchemaMismatch: REQUIRED, naming the first row that is wrong."""
        refuse_rows(wrong, self._next, what, remedy)
