"""Arrow IPC streams as record batches: checked before anything is believed, then handed on.

An IPC message can lie about sizes and offsets, and compressed or shared buffers make much of few
bytes. So the schema must be the wanted one, of types whose cost is bounded by their bytes; batches
must not be compressed; and every offset is checked before a row is read.
"""

from __future__ import annotations

import struct

import pyarrow as pa

MAX_ROWS = 1 << 20
"""Rows of one message: a column of nulls has any number of them in no bytes."""

MAX_KNOWN = 16
"""Schemas that were accepted and are remembered, the last one first, so that the next message is
compared at a glance."""

_OPTIONS = pa.ipc.IpcReadOptions(
    ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False
)
"""A payload begins at any byte of a stored batch; numbers have to lie at whole addresses."""

_RECORD_BATCH = 3
_SCHEMA = 1


class ArrowPayloads:
    """Decodes messages into batches with exactly the columns of a schema.

    Units of time and widths of offsets may differ from the wanted ones; types may not. Columns that
    the schema does not name are left out, and their order does not matter.
    """

    def __init__(self, wanted: pa.Schema) -> None:
        self._wanted = wanted
        self._known: list[pa.Schema] = []

    def decode(self, payload: pa.Buffer) -> list[pa.RecordBatch]:
        """The batches of one message. Raises: ValueError with why it is none."""
        _check_uncompressed(payload)
        try:
            with pa.ipc.open_stream(payload, options=_OPTIONS) as stream:
                self._check_schema(stream.schema)
                return self._batches(stream)
        except (pa.ArrowException, OSError, struct.error, OverflowError) as error:
            raise ValueError(f"not an Arrow IPC stream ({type(error).__name__})") from None

    def _batches(self, stream: pa.RecordBatchStreamReader) -> list[pa.RecordBatch]:
        found = []
        rows = 0
        for batch in stream:
            rows += batch.num_rows
            if rows > MAX_ROWS:
                raise ValueError(f"it has over {MAX_ROWS} rows")
            batch.validate(full=True)
            columns = [
                batch.column(batch.schema.get_field_index(field.name)).cast(field.type)
                for field in self._wanted
            ]
            found.append(pa.RecordBatch.from_arrays(columns, schema=self._wanted))
        return found

    def _check_schema(self, schema: pa.Schema) -> None:
        for place, known in enumerate(self._known):
            if schema.equals(known):
                self._known.insert(0, self._known.pop(place))
                return
        for field in self._wanted:
            places = schema.get_all_field_indices(field.name)
            if len(places) != 1:
                raise ValueError(f"it has {len(places)} columns '{field.name}'")
            given = schema.field(places[0]).type
            if not _castable(given, field.type):
                raise ValueError(f"column '{field.name}' is {given}, not {field.type}")
        for field in schema:
            if not _bounded(field.type):
                raise ValueError(f"column '{field.name}' is {field.type}, which is not accepted")
        self._known = [schema, *self._known[: MAX_KNOWN - 1]]


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values go over without loss of meaning or bounds."""
    if given == wanted:
        return True
    if pa.types.is_timestamp(wanted):
        same_zone = pa.types.is_timestamp(given) and (given.tz is None) == (wanted.tz is None)
        return same_zone and given.unit in ("s", "ms", "us")
    if pa.types.is_string(wanted):
        return bool(pa.types.is_large_string(given))
    if pa.types.is_binary(wanted):
        return bool(pa.types.is_large_binary(given))
    if pa.types.is_list(wanted):
        listed = pa.types.is_list(given) or pa.types.is_large_list(given)
        return listed and _castable(given.value_type, wanted.value_type)
    if pa.types.is_map(wanted):
        return (
            pa.types.is_map(given)
            and _castable(given.key_type, wanted.key_type)
            and _castable(given.item_type, wanted.item_type)
        )
    if pa.types.is_struct(wanted):
        return (
            pa.types.is_struct(given)
            and [f.name for f in given] == [f.name for f in wanted]
            and all(_castable(a.type, b.type) for a, b in zip(given, wanted, strict=True))
        )
    return False


def _bounded(kind: pa.DataType) -> bool:
    """Whether rows of this type cost no more than their bytes: no dictionaries, views, runs."""
    if pa.types.is_nested(kind):
        plain = pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_list(kind)
        plain = plain or pa.types.is_large_list(kind)
        return plain and all(_bounded(kind.field(i).type) for i in range(kind.num_fields))
    return bool(
        pa.types.is_primitive(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_null(kind)
    )


def _check_uncompressed(payload: pa.Buffer) -> None:
    """Look at the head of each message in the stream, before a buffer of it is unpacked.

    Raises: ValueError for one that is compressed, or that cannot be told.
    """
    view = memoryview(payload)
    position, size = 0, len(view)
    while position + 8 <= size:
        marker, length = struct.unpack_from("<Ii", view, position)
        if marker != 0xFFFFFFFF:
            raise ValueError("not an Arrow IPC stream")
        if length == 0:
            return
        head = position + 8
        if length < 0 or head + length > size:
            raise ValueError("not an Arrow IPC stream: it is cut off")
        try:
            kind, body, compressed = _message_head(view[head : head + length])
        except (struct.error, IndexError):
            raise ValueError("not an Arrow IPC stream: a head is broken") from None
        if kind not in (_SCHEMA, _RECORD_BATCH):
            raise ValueError("it holds dictionaries, which are not accepted")
        if compressed:
            raise ValueError("it is compressed, which is not accepted")
        if body < 0 or body > size - head - length:
            raise ValueError("not an Arrow IPC stream: it is cut off")
        position = head + length + body
    if position != size:
        raise ValueError("not an Arrow IPC stream: it is cut off")


def _message_head(data: memoryview) -> tuple[int, int, bool]:
    """Kind, length of the body, and whether it is compressed, of a flatbuffer ``Message``."""
    message = struct.unpack_from("<I", data, 0)[0]
    kind_at, header_at, body_at = (_field(data, message, slot) for slot in (1, 2, 3))
    kind = data[kind_at] if kind_at else 0
    body = struct.unpack_from("<q", data, body_at)[0] if body_at else 0
    compressed = False
    if kind == _RECORD_BATCH and header_at:
        header = header_at + struct.unpack_from("<I", data, header_at)[0]
        compressed = _field(data, header, 3) != 0
    return kind, body, compressed


def _field(data: memoryview, table: int, slot: int) -> int:
    """Where a field of a flatbuffer table lies; 0 where it has none."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    if entries < 0:
        raise IndexError
    size = struct.unpack_from("<H", data, entries)[0]
    place = 4 + 2 * slot
    if place + 2 > size:
        return 0
    offset = struct.unpack_from("<H", data, entries + place)[0]
    return table + offset if offset else 0
