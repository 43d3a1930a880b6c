"""Runs of messages become one record batch of the spool, without an object per message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from aqueduct_core.aqueduct.conventions.dedupe import checksum, numbering
from aqueduct_core.aqueduct.conventions.dedupe.source_rows import Numbers, stretches
from aqueduct_core.aqueduct.conventions.headers import MAX_SEQUENCE, key_to_text
from aqueduct_core.aqueduct.wire import chanid
from aqueduct_core.engine.message_batch import Attachment, Headers, MessageBatch
from aqueduct_core.intake.sessions.tally import Tally
from aqueduct_core.intake.storage.schema import (
    ATTACHMENTS,
    HEADERS,
    SOURCE,
    SPOOL_SCHEMA,
    TIMESTAMP,
)
from aqueduct_core.primitives.ranges import Range
from aqueduct_core.spool import SPARSE, ContentSum


@dataclass(frozen=True, slots=True)
class RowSource:
    """What all messages of one channel share.

    ``channel`` is its name, ``producer`` the identity of who sends. ``start`` is the logical
    number of its reliable message 0, ``floor`` that below which its producer is done; None where
    it is no sink, whose numbers jump from batch to batch. ``run_start`` is the number at which its
    producer's run began, as far as that is told. ``run_number`` is of the run that is to own the
    channel, None where none is (`channel_owners`). ``by_source``: messages have the numbers
    of the rows that they are made of, which come with them (`dedupe.source_rows`).
    ``parent_message`` is the number of the message that it was attached to, as the row of that
    message shows it; the entrypoint has no parent.
    """

    channel: str
    producer: str
    connection: str
    channel_id: int
    start: int = 0
    floor: int | None = None
    run_start: int = 0
    run_number: int | None = None
    by_source: bool = False
    parent_channel_id: int | None = None
    parent_message: int | None = None
    channel_headers: Headers = ()
    connection_headers: Headers = ()

    @property
    def track(self) -> tuple[str, str]:
        """Producer and name under which it is remembered what is stored."""
        return self.producer, self.channel + SPARSE if self.by_source else self.channel

    @property
    def space(self) -> Range:
        """The logical numbers of which one checksum is kept: of a sink those of one batch and
        mode, otherwise all from the beginning of the run on."""
        if self.floor is not None:
            return numbering.space(self.start)
        return min(self.run_start, self.start), MAX_SEQUENCE

    def number(self, run: MessageBatch, index: int) -> int:
        """The ``messageNum`` of message ``index`` of a run of this channel."""
        return run.first + index + (self.start if run.reliable else 0)


class BatchSlice(NamedTuple):
    """The messages ``[low, high)`` of a run, received at ``timestamp`` (microseconds, UTC).

    ``resumes``: their producer keeps logical numbers, so they are marked as stored. ``numbers`` are
    those of all messages of the run, where they do not follow from the channel's. ``tally``: that
    of their channel.
    """

    source: RowSource
    run: MessageBatch
    low: int
    high: int
    timestamp: int
    resumes: bool = False
    numbers: Numbers | None = None
    tally: Tally | None = None

    @property
    def logical(self) -> list[Range]:
        """The logical numbers of the messages."""
        if self.numbers is None:
            first = self.source.number(self.run, self.low)
            return [(first, first + self.high - self.low)]
        numbers = self.numbers[self.low : self.high]
        return [(int(numbers[low]), int(numbers[low]) + high - low)
                for low, high in stretches(numbers)]  # fmt: skip

    @property
    def size(self) -> int:
        """Payload bytes."""
        offsets = self.run.offsets
        return int(offsets[self.high] - offsets[self.low])


def add_contents(pieces: Sequence[BatchSlice]) -> tuple[list[ContentSum], checksum.Checks]:
    """The content of the pieces, of reliable messages with logical numbers: of each channel, but
    none of rows that are known by their source, and the checks of all messages. The tallies of
    their channels are told of it."""
    parts = [
        checksum.BatchPart(
            piece.run, piece.low, piece.high, piece.source.number(piece.run, piece.low)
        )
        for piece in pieces
    ]
    contents, checks = checksum.of_batches(parts)
    sums: dict[tuple[str, str, int, int], checksum.Content] = {}
    for piece, content in zip(pieces, contents, strict=True):
        source = piece.source
        if source.by_source:
            continue
        if piece.tally is not None:
            piece.tally.content = piece.tally.content.plus(content)
        key = source.producer, source.channel, *source.space
        sums[key] = sums.get(key, checksum.Content()).plus(content)
    return [ContentSum(*key, *content) for key, content in sums.items()], checks


def to_batch(pieces: Sequence[BatchSlice]) -> pa.RecordBatch:
    """The rows of ``pieces`` in their order, as the spool stores them.

    The payloads together must stay below 2 GiB (the limit of Arrow's ``binary``).
    """
    rows = sum(piece.high - piece.low for piece in pieces)
    firsts, ends = _runs(pieces)
    columns = [
        _values(pieces, rows),
        pa.array(np.concatenate([_numbers(piece) for piece in pieces])),
        _optional(
            pieces, rows, HEADERS, lambda run: run.headers, lambda value, _: header_list(value)
        ),
        _optional(pieces, rows, ATTACHMENTS, lambda run: run.attachments, _attachment_list),
        pa.RunEndEncodedArray.from_arrays(pa.array(ends, pa.int32()), _sources(firsts)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SPOOL_SCHEMA)


def _runs(pieces: Sequence[BatchSlice]) -> tuple[list[BatchSlice], list[int]]:
    """Neighbours of one channel and one moment share one entry of ``source``: the first piece
    of each entry, and the row at which it ends."""
    firsts: list[BatchSlice] = []
    ends: list[int] = []
    rows = 0
    for piece in pieces:
        rows += piece.high - piece.low
        last = firsts[-1] if firsts else None
        if (
            last is not None
            and last.source is piece.source
            and last.timestamp == piece.timestamp
            and last.run.reliable is piece.run.reliable
        ):
            ends[-1] = rows
        else:
            firsts.append(piece)
            ends.append(rows)
    return firsts, ends


def header_list(headers: Headers) -> list[dict[str, Any]]:
    return [{"key": key_to_text(key), "value": value} for key, value in headers]


def _attachment_list(attachments: tuple[Attachment, ...], carrier: int) -> list[dict[str, Any]]:
    return [
        {
            "channelId": attachment.channel,
            "direction": "receive" if same_way(attachment.channel, carrier) else "send",
            "headers": header_list(attachment.headers) or None,
        }
        for attachment in attachments
    ]


def same_way(channel: int, carrier: int) -> bool:
    """Whether two channels flow the same way: an attachment to the intake, as its carrier does."""
    return chanid.sender(channel) is chanid.sender(carrier)


def _values(pieces: Sequence[BatchSlice], rows: int) -> pa.Array:
    offsets = np.empty(rows + 1, np.int32)
    parts: list[bytes | memoryview] = []
    row = base = 0
    for piece in pieces:
        run = piece.run
        ends = run.offsets[piece.low : piece.high + 1]
        first, stop = int(ends[0]), int(ends[-1])
        count = piece.high - piece.low
        offsets[row : row + count] = ends[:-1] + (base - first)
        whole = first == 0 and stop == len(run.payload)
        parts.append(run.payload if whole else memoryview(run.payload)[first:stop])
        row += count
        base += stop - first
    offsets[rows] = base
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def _numbers(piece: BatchSlice) -> np.ndarray[Any, np.dtype[np.int64]]:
    if piece.numbers is not None:
        return piece.numbers[piece.low : piece.high]
    first = piece.source.number(piece.run, piece.low)
    return np.arange(first, first + piece.high - piece.low, dtype=np.int64)


def _optional(
    pieces: Sequence[BatchSlice],
    rows: int,
    kind: pa.DataType,
    column: Any,
    convert: Any,
) -> pa.Array:
    """A column that only few messages have a value of; most batches hold none at all."""
    if not any(column(piece.run) for piece in pieces):
        return pa.nulls(rows, kind)
    values: list[Any] = [None] * rows
    row = 0
    for piece in pieces:
        found: Mapping[int, Any] = column(piece.run)
        for index, value in found.items():
            if piece.low <= index < piece.high and value:
                values[row + index - piece.low] = convert(value, piece.run.channel)
        row += piece.high - piece.low
    return pa.array(values, kind)


def _sources(pieces: Iterable[BatchSlice]) -> pa.StructArray:
    rows = [
        (
            piece.source.channel,
            piece.source.producer,
            piece.run.reliable,
            piece.timestamp,
            piece.source.connection,
            piece.source.channel_id,
            piece.source.parent_channel_id,
            piece.source.parent_message,
            header_list(piece.source.channel_headers) or None,
            header_list(piece.source.connection_headers) or None,
        )
        for piece in pieces
    ]
    columns = [
        pa.array(values, pa.int64()).cast(TIMESTAMP)
        if field.type == TIMESTAMP
        else pa.array(values, field.type)
        for values, field in zip(zip(*rows, strict=True), SOURCE, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(SOURCE))
