"""One record of a segment: an Arrow record batch message whose metadata says what it is.

A record is an encapsulated Arrow IPC message. Its custom metadata has one key, ``aqueduct``, with
a JSON object. Every record has

    crc32     of the whole message, with these eight digits as zeros
    last      1 on the record that ends its group, else 0
    size      bytes of the body of the message
    segment   and
    at        where it was written: a copy of it elsewhere is not valid
    stamp     random, the same in all records of a segment file: another file of the same number,
              as a restored copy of the directory may have written it, has another one
    kind      "rows", or "head" for the record without rows that starts a segment
    group     its group; for a head the last group before it
    durable   the newest group that was known to be durable when this record was made

A record of rows adds ``part`` (its place in the group), ``partition``, ``first`` (offset),
``rows`` (count) and, where there are any, ``marks`` and ``sums``. A head adds ``preamble`` (crc32
of the schema message before it), ``previous`` (number and stamp of the segment before it) and the
state before it: ``id``, ``epoch``, ``partitions``, ``ends``, ``cursors``, ``marks``, ``sums``.
Format 1 has no ``stamp`` and no ``previous``; earlier releases wrote no ``sums``. Format 3 has the
records of format 2; what is new is beside the segments (`claim`).
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from aqueduct_core.spool.format.settings import ContentSum, SequenceMark

KEY = b"aqueduct"
_OPEN = b'{"crc32":"'
_ZEROS = b"00000000"
_PREFIX = struct.Struct("<Ii")
_CONTINUATION = 0xFFFFFFFF
_LAST = len(_OPEN) + 8 + len(b'","last":')
_SIZE = _LAST + 1 + len(b',"size":"')
_SIZE_DIGITS = 12
GATHERED = 32 << 10
"""Bytes of a buffer above which it is not copied before it is written: below, a copy costs less
than one more piece does."""


class Damaged(Exception):
    """The bytes at a position are not a whole and unchanged record. Never leaves the spool."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a record says of itself, verified. It fills ``[at, end)`` of its file.

    ``state`` is what a head adds, and None for rows.
    """

    at: int
    end: int
    group: int
    durable: int
    last: bool
    part: int = 0
    partition: int = 0
    first: int = 0
    stop: int = 0
    marks: tuple[SequenceMark, ...] = ()
    state: dict[str, Any] | None = None
    stamp: str = ""
    sums: tuple[ContentSum, ...] = ()


@dataclass(slots=True)
class RecordBatchDraft:
    """An encoded record that still lacks its ``last`` digit and its checksum."""

    metadata: bytearray
    body: tuple[bytes | memoryview, ...]
    body_size: int
    json_at: int
    body_crc: int

    @property
    def size(self) -> int:
        return len(self.metadata) + self.body_size

    def pieces(self, last: bool) -> tuple[bytes | memoryview, ...]:
        """The finished record, to be written as these pieces; the body is not copied."""
        metadata = bytearray(self.metadata)
        metadata[self.json_at + _LAST] = 0x31 if last else 0x30
        crc = zlib.crc32(metadata, self.body_crc)
        start = self.json_at + len(_OPEN)
        metadata[start : start + 8] = b"%08x" % crc
        return bytes(metadata), *self.body


class Codec:
    """Encodes and verifies the records of one schema. Any thread may use it to verify and to read,
    one to encode."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._encoder: _Encoder | None = None
        sink = pa.BufferOutputStream()
        pa.ipc.new_stream(sink, schema).close()
        # the stream of no batches is the schema message and eight bytes of end mark
        self.preamble: bytes = sink.getvalue().to_pybytes()[:-8]
        # not from Python values: for these pyarrow imports pandas, half a second at each start
        self._empty = pa.RecordBatch.from_arrays(
            [pa.nulls(0, field.type) for field in schema], schema=schema
        )

    def rows(
        self,
        batch: pa.RecordBatch,
        *,
        segment: int,
        stamp: str,
        at: int,
        group: int,
        durable: int,
        part: int,
        partition: int,
        first: int,
        marks: Sequence[SequenceMark],
        sums: Sequence[ContentSum] = (),
    ) -> RecordBatchDraft:
        """Encode a batch. Its large buffers are not copied: the draft holds them."""
        tail = (
            f'"segment":{segment},"stamp":"{stamp}","at":{at},"kind":"rows","group":{group},'
            f'"durable":{durable},"part":{part},"partition":{partition},"first":{first},"rows":{batch.num_rows}'
        )
        if marks:
            tail += ',"marks":' + json.dumps(marks, separators=(",", ":"))
        if sums:
            tail += ',"sums":' + json.dumps(sums, separators=(",", ":"))
        return self._encode(batch, tail)

    def head(
        self,
        *,
        segment: int,
        stamp: str,
        group: int,
        durable: int,
        previous: tuple[int, str],
        state: dict[str, Any],
        at: int | None = None,
    ) -> RecordBatchDraft:
        """Encode a record of no rows: the one that starts a segment, with the state before it, or
        one ``at`` another position, with a state of its own."""
        at = len(self.preamble) if at is None else at
        tail = (
            f'"segment":{segment},"stamp":"{stamp}","at":{at},"kind":"head",'
            f'"group":{group},"durable":{durable},"preamble":{zlib.crc32(self.preamble)},'
            f'"previous":{json.dumps(previous)},'
        ) + json.dumps(state, separators=(",", ":"))[1:-1]
        return self._encode(self._empty, tail)

    def batch(self, message: pa.Buffer) -> pa.RecordBatch:
        """The rows of a verified record, without copying them."""
        return pa.ipc.read_record_batch(message, self.schema)

    def _encode(self, batch: pa.RecordBatch, tail: str) -> RecordBatchDraft:
        text = b'%s00000000","last":0,"size":"%s",%s}' % (_OPEN, b"0" * 12, tail.encode())
        if self._encoder is None:
            self._encoder = _Encoder(self.schema, self._empty)
        first, *more = self._encoder.message(batch, {KEY: text})
        split = _PREFIX.size + _PREFIX.unpack_from(first)[1]
        while len(first) < split:  # as many marks make it
            first = b"".join((first, more.pop(0)))
        metadata = bytearray(first[:split])
        body = (memoryview(first)[split:], *more)
        size = sum(map(len, body))
        json_at = metadata.find(_OPEN)
        start = json_at + _SIZE
        metadata[start : start + _SIZE_DIGITS] = b"%012d" % size
        crc = 0
        for piece in body:
            crc = zlib.crc32(piece, crc)
        return RecordBatchDraft(metadata, body, size, json_at, crc)


class _Encoder:
    """Makes IPC messages of record batches, as pieces: buffers of more than `GATHERED` bytes are
    pieces themselves, what is between them is copied into others.

    One stream for all of them, of which nobody wants the beginning: to write the schema anew for
    each costs as much as a small batch does.
    """

    def __init__(self, schema: pa.Schema, empty: pa.RecordBatch) -> None:
        self._pieces = _Pieces()
        self._stream = pa.BufferedOutputStream(pa.PythonFile(self._pieces, mode="w"), GATHERED)
        self._writer = pa.ipc.new_stream(self._stream, schema)
        self.message(empty, {})

    def message(self, batch: pa.RecordBatch, metadata: dict[bytes, bytes]) -> list[Any]:
        self._pieces.taken = []
        self._writer.write_batch(batch, custom_metadata=metadata)
        self._stream.flush()
        return self._pieces.taken


class _Pieces:
    """A file, to pyarrow, that keeps what is written to it."""

    closed = False

    def __init__(self) -> None:
        self.taken: list[bytes | memoryview] = []

    def write(self, piece: Any) -> int:
        self.taken.append(piece if isinstance(piece, bytes) else memoryview(piece).cast("B"))
        return len(piece)

    def flush(self) -> None: ...

    def close(self) -> None: ...


def verify(data: memoryview, at: int, segment: int, base: int = 0) -> Record:
    """The record at a position, with its checksum verified. ``data`` begins at ``base`` of the
    file: ``at`` is a position in ``data``, those of the record are positions in the file.

    Raises:
        Damaged: there is no whole record, or a bit of it has changed, or it belongs elsewhere.
    """
    left = len(data) - at
    if left < _PREFIX.size:
        raise Damaged(f"{left} bytes are too few for a record")
    mark, length = _PREFIX.unpack_from(data, at)
    if mark != _CONTINUATION or length <= 0 or length % 8 or length > left - _PREFIX.size:
        raise Damaged("no record starts here")
    split = at + _PREFIX.size + length
    metadata = bytearray(data[at:split])
    json_at = metadata.find(_OPEN)
    if json_at < 4:
        raise Damaged("the metadata of the record is not ours")
    crc_at, size_at = json_at + len(_OPEN), json_at + _SIZE
    try:
        end = split + int(metadata[size_at : size_at + _SIZE_DIGITS])
    except ValueError:
        raise Damaged("the metadata of the record is not ours") from None
    if not split <= end <= len(data):
        raise Damaged("the record ends beyond the segment")
    crc = bytes(metadata[crc_at : crc_at + 8])
    metadata[crc_at : crc_at + 8] = _ZEROS
    # compared as text: the digits are part of what must not have changed
    if b"%08x" % zlib.crc32(metadata, zlib.crc32(data[split:end])) != crc:
        raise Damaged("the checksum does not match")
    # a FlatBuffers string is preceded by its length
    (text,) = struct.unpack_from("<I", metadata, json_at - 4)
    fields = json.loads(metadata[json_at : json_at + text])
    if fields["at"] != base + at or fields["segment"] != segment:
        raise Damaged("the record was written elsewhere")
    group, durable, last = fields["group"], fields["durable"], fields["last"] == 1
    stamp = fields.get("stamp", "")
    if fields["kind"] == "head":
        return Record(base + at, base + end, group, durable, last, state=fields, stamp=stamp)
    first = fields["first"]
    return Record(
        base + at,
        base + end,
        group,
        durable,
        last,
        fields["part"],
        fields["partition"],
        first,
        first + fields["rows"],
        tuple(SequenceMark(*mark) for mark in fields.get("marks", ())),
        stamp=stamp,
        sums=tuple(ContentSum(*each) for each in fields.get("sums", ())),
    )
