"""Values of Python as a column of any type that a payload may have, without ``pyarrow.array``.

That one imports pandas with its first call (see `aqueduct_core.spool.arrays`), in each worker that
reads JSON. Here buffers are filled by the layout of Arrow, a child at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

MOST_BYTES = (1 << 31) - 1
"""What offsets of 32 bits reach."""

_DAY_ZERO = date(1970, 1, 1)
_MOMENT_ZERO = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """One value after the other, None for null. A struct is a mapping with all of its fields, a map
    a list of pairs, a moment is aware where its type has a zone, a decimal no longer than its type.

    Raises:
        ValueError: texts or bytes of 2 GiB and more.
        TypeError: a type that no payload has.
    """
    if pa.types.is_struct(kind):
        nothing = {field.name: None for field in kind}
        whole = _without(nothing, values)
        children = [column([*map(itemgetter(each.name), whole)], each.type) for each in kind]
        return pa.Array.from_buffers(kind, len(values), [_valid(values)], children=children)
    if pa.types.is_list(kind):
        lists = _without((), values)
        child = column([*chain.from_iterable(lists)], kind.value_type)
        return _nested(values, lists, kind, child)
    if pa.types.is_map(kind):
        lists = _without((), values)
        pairs = [*chain.from_iterable(lists)]
        keys = column([key for key, _ in pairs], kind.key_type)
        held = column([item for _, item in pairs], kind.item_type)
        fields = [kind.key_field, kind.item_field]
        child = pa.StructArray.from_arrays([keys, held], fields=fields)
        return _nested(values, lists, kind, child)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes(values, kind)
    if pa.types.is_boolean(kind):
        return _plain(values, kind, _bits(values))
    return _plain(values, kind, _numbers(values, kind))


def _numbers(values: Sequence[Any], kind: pa.DataType) -> Any:
    """What the buffer of a type of fixed width holds, 0 for null."""
    if pa.types.is_decimal128(kind):
        return b"".join(
            bytes(16) if value is None else _unscaled(value, kind.scale) for value in values
        )
    number: Callable[[Any], int] | None = None
    zero: Any = 0
    if pa.types.is_date32(kind):
        width: Any = np.int32
        number, zero = _days, _DAY_ZERO
    elif pa.types.is_timestamp(kind) and kind.unit == "us":
        width = np.int64
        number, zero = _microseconds, _MOMENT_ZERO
    elif pa.types.is_signed_integer(kind) or pa.types.is_floating(kind):
        width = np.dtype(f"{'f' if pa.types.is_floating(kind) else 'i'}{kind.bit_width // 8}")
    else:
        raise TypeError(f"no payload has {kind}")
    whole = _without(zero, values)
    with np.errstate(over="ignore"):  # a number too large for 32 bits is infinite
        return np.array(whole if number is None else [*map(number, whole)], width)


def _days(value: date) -> int:
    return (value - _DAY_ZERO).days


def _microseconds(value: datetime) -> int:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return (value - _MOMENT_ZERO) // _MICROSECOND


def _unscaled(value: Decimal, scale: int) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not value:
        return bytes(16)
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    signed: int = -number if sign else number
    return signed.to_bytes(16, "little", signed=True)


def _plain(values: Sequence[Any], kind: pa.DataType, data: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, len(values), [_valid(values), pa.py_buffer(data)])


def _bytes(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_string(kind):
        whole = [*map(str.encode, _without("", values))]
    else:
        whole = [*_without(b"", values)]
    buffers = [_valid(values), _offsets(whole), pa.py_buffer(b"".join(whole))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def _nested(
    values: Sequence[Any], lists: Sequence[Any], kind: pa.DataType, child: pa.Array
) -> pa.Array:
    buffers = [_valid(values), _offsets(lists)]
    return pa.Array.from_buffers(kind, len(values), buffers, children=[child])


def _without(nothing: Any, values: Sequence[Any]) -> Sequence[Any]:
    """The values, with ``nothing`` in the places of nulls."""
    if None not in values:
        return values
    return [nothing if value is None else value for value in values]


def _offsets(parts: Sequence[Any]) -> pa.Buffer:
    ends = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    if ends[-1] > MOST_BYTES:
        raise ValueError(f"{ends[-1]:,} are more than a column holds")
    return pa.py_buffer(ends.astype(np.int32))


def _valid(values: Sequence[Any]) -> pa.Buffer | None:
    """A bit for each that is not null; None where all are not."""
    if None not in values:
        return None
    return pa.py_buffer(_bits([value is not None for value in values]))


def _bits(values: Sequence[bool]) -> Any:
    return np.packbits(np.array(values, np.bool_), bitorder="little")
