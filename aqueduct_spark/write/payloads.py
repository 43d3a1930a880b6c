"""The payload of each row: as it is, as text, or as a JSON object."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_core.spool.arrays import binary_array

ToJson = Callable[[Any], Any]


def payload_column(
    piece: pa.RecordBatch,
    payload_format: str,
    max_message_bytes: int,
    besides: Collection[str] = (),
) -> pa.Array:
    """One payload for each row, as ``large_binary`` without nulls. ``besides``: columns that are
    none of it.

    Raises:
        SchemaMismatch: REQUIRED for a null value.
        SinkFailed: MESSAGE_TOO_LARGE.
    """
    values = json_column(piece, besides) if payload_format == "json" else _value_column(piece)
    largest = pc.max(pc.binary_length(values)).as_py() or 0
    if largest > max_message_bytes:
        raise too_large(largest, max_message_bytes)
    return values


def too_large(size: int, most: int) -> SinkFailed:
    return SinkFailed(
        "MESSAGE_TOO_LARGE",
        f"A row has a value of {size} bytes; 'maxMessageBytes' is {most}",
        "Split the value, or raise 'maxMessageBytes' here and at the receiver",
    )


def _value_column(piece: pa.RecordBatch) -> pa.Array:
    values = piece.column("value").cast(pa.large_binary())
    if values.null_count:
        raise SchemaMismatch(
            "REQUIRED",
            f"Column 'value' is null in {values.null_count} of {len(values)} rows; a message "
            "has a payload",
            "Filter these rows, or coalesce(value, '')",
        )
    return values


def json_column(piece: pa.RecordBatch, besides: Collection[str] = ()) -> pa.Array:
    """Each row as a JSON object in UTF-8: of all columns but those ``besides``, or of the fields
    of ``value`` where that is the only one and a struct.

    Binary is base64, a decimal is text, times are ISO-8601; a number that is none (NaN,
    Infinity) is the word for it.
    """
    names = [name for name in piece.schema.names if name not in besides]
    if names == ["value"] and pa.types.is_struct(piece.schema.field("value").type):
        column = piece.column("value")
        if column.null_count:
            raise SchemaMismatch(
                "REQUIRED",
                f"Column 'value' is null in {column.null_count} of {len(column)} rows; a message "
                "has a payload",
                "Filter these rows",
            )
    else:
        column = pa.StructArray.from_arrays(
            [piece.column(name) for name in names], fields=[piece.schema.field(n) for n in names]
        )
    convert = _plain(column.type) or _same
    return binary_array([_encode(convert(row)) for row in column.to_pylist()])


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _encode(row: Any) -> bytes:
    try:
        return _encoder.encode(row).encode()
    except ValueError:
        return _encoder.encode(_finite(row)).encode()


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _plain(kind: pa.DataType) -> ToJson | None:
    """What makes a value of this type one that JSON has; None: it is one."""
    if pa.types.is_struct(kind):
        changing = {f.name: convert for f in kind if (convert := _plain(f.type))}
        return (lambda value: _struct(value, changing)) if changing else None
    if pa.types.is_map(kind):
        item = _plain(kind.item_type) or _same
        return _unless_null(lambda value: {key: item(held) for key, held in value})
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = _plain(kind.value_type)
        if element is None:
            return None
        return _unless_null(lambda value: [element(held) for held in value])
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _unless_null(lambda value: base64.b64encode(value).decode())
    if pa.types.is_decimal(kind) or pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _unless_null(_text)
    return None


def _struct(value: dict[str, Any] | None, changing: dict[str, ToJson]) -> dict[str, Any] | None:
    if value is None:
        return None
    for name, convert in changing.items():
        value[name] = convert(value[name])
    return value


def _unless_null(convert: ToJson) -> ToJson:
    return lambda value: None if value is None else convert(value)


def _text(value: date | datetime | Decimal) -> str:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return str(value) if isinstance(value, Decimal) else value.isoformat()


def _same(value: Any) -> Any:
    return value
