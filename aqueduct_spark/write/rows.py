"""From record batches to what goes on each channel: pure, and without one object per row where
rows have no headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.aqueduct.conventions import MAX_NAME_BYTES
from aqueduct_core.errors import SchemaMismatch, SinkFailed

DEFAULT_CHANNEL = "spark"
"""The name of the channel of rows that name none."""

RELIABILITIES = ("ordered", "unordered", "unreliable")

SLICE_ROWS = 4096
"""Rows that are turned into Python objects at a time: Spark hands over up to 64 MiB at once."""

Headers = tuple[tuple[str, bytes], ...]


class Destination(NamedTuple):
    """A channel of the connection: rows of one name and one reliability keep their order."""

    channel: str
    reliability: str


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows for one destination, in order. ``headers`` has one entry for each, or is None when no
    row of the portion has any."""

    destination: Destination
    payloads: list[bytes]
    headers: list[Headers] | None

    @property
    def size(self) -> int:
        """Bytes of the payloads."""
        return sum(map(len, self.payloads))


def portions(
    batch: pa.RecordBatch, *, channel: str | None, reliability: str, max_message_bytes: int
) -> Iterator[Portion]:
    """The rows of a batch by destination; ``channel`` beats the column of that name.

    Raises:
        SchemaMismatch: REQUIRED for a null value, COLUMN_TYPE for a reliability that is none.
        SinkFailed: MESSAGE_TOO_LARGE.
    """
    for first in range(0, batch.num_rows, SLICE_ROWS):
        piece = batch.slice(first, SLICE_ROWS)
        values = _values(piece, max_message_bytes)
        headers = _headers(piece)
        for destination, rows in _destinations(piece, channel, reliability):
            yield Portion(
                destination,
                (values if rows is None else values.take(rows)).to_pylist(),
                _chosen(headers, rows),
            )


def _values(piece: pa.RecordBatch, max_message_bytes: int) -> pa.Array:
    values = piece.column("value").cast(pa.large_binary())
    if values.null_count:
        raise SchemaMismatch(
            "REQUIRED",
            f"Column 'value' is null in {values.null_count} of {len(values)} rows; a message "
            "has a payload",
            "Filter these rows, or coalesce(value, '')",
        )
    largest = pc.max(pc.binary_length(values)).as_py() or 0
    if largest > max_message_bytes:
        raise SinkFailed(
            "MESSAGE_TOO_LARGE",
            f"A row has a value of {largest} bytes; 'maxMessageBytes' is {max_message_bytes}",
            "Split the value, or raise 'maxMessageBytes' here and at the receiver",
        )
    return values


def _headers(piece: pa.RecordBatch) -> list[Headers] | None:
    if "headers" not in piece.schema.names:
        return None
    column = piece.column("headers")
    if column.null_count == len(column):
        return None
    rows = [
        tuple((pair["key"], pair["value"] or b"") for pair in row or () if pair)
        for row in column.to_pylist()
    ]
    for key in {key for row in rows for key, _ in row}:
        if not key or not key.isascii():
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column 'headers' holds the key {key!r:.60}; a key is ASCII and not empty",
                "Correct the keys",
            )
    return rows


def _chosen(headers: list[Headers] | None, rows: pa.Array | None) -> list[Headers] | None:
    if headers is None or rows is None:
        return headers
    chosen = [headers[row] for row in rows.to_pylist()]
    return chosen if any(chosen) else None


def _destinations(
    piece: pa.RecordBatch, channel: str | None, reliability: str
) -> Iterator[tuple[Destination, pa.Array | None]]:
    """Each destination with the numbers of its rows; None: all rows go there."""
    names = piece.schema.names
    keys: list[tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[str]]] = []
    if channel is None and "channel" in names:
        keys.append(_encoded(piece.column("channel"), DEFAULT_CHANNEL))
    else:
        keys.append((np.zeros(piece.num_rows, np.int64), [channel or DEFAULT_CHANNEL]))
    if "reliability" in names:
        keys.append(_encoded(piece.column("reliability"), reliability))
    else:
        keys.append((np.zeros(piece.num_rows, np.int64), [reliability]))
    (channels, channel_names), (kinds, kind_names) = keys
    _check_channels(channel_names)
    _check_reliabilities(kind_names)
    combined = channels * len(kind_names) + kinds
    found = np.unique(combined)
    for key in found.tolist():
        destination = Destination(
            channel_names[key // len(kind_names)], kind_names[key % len(kind_names)].lower()
        )
        yield destination, None if len(found) == 1 else pa.array(np.flatnonzero(combined == key))


def _encoded(
    column: pa.Array, default: str
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[str]]:
    encoded = column.fill_null(default).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _check_channels(names: list[str]) -> None:
    for name in names:
        if not 0 < len(name.encode()) <= MAX_NAME_BYTES:
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column 'channel' holds a name of {len(name.encode())} bytes; a name has 1 to "
                f"{MAX_NAME_BYTES}",
                "Correct the column, or set option 'channel'",
            )


def _check_reliabilities(words: list[str]) -> None:
    for word in words:
        if word.lower() not in RELIABILITIES:
            raise SchemaMismatch(
                "COLUMN_TYPE",
                f"Column 'reliability' holds '{word[:40]}'; it must be one of "
                + ", ".join(RELIABILITIES),
                "Correct the column, or leave it out and set option 'reliability'",
            )
