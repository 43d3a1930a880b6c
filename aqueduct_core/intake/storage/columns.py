"""Columns of the rows that an intake stores, out of values; made of their buffers.

Without ``pa.array`` (`spool.arrays`): a group of few messages has a dozen columns of one value
each, of which one that is made so costs half.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aqueduct_core.spool.arrays import numeric_array

_ENDS = pa.int32()


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """A column of Python values, each of which may be None: of bool, int64, timestamp (as integer),
    string, binary, and of lists (as sequences) and structs (as mappings) of these.

    Raises:
        TypeError: another kind.
    """
    count, missing = len(values), values.count(None)
    if missing == count:
        return pa.nulls(count, kind)
    valid = _bits([value is not None for value in values]) if missing else None
    types = pa.types
    if types.is_string(kind):
        return _joined([value.encode() if value else value for value in values], kind, valid)
    if types.is_binary(kind):
        return _joined(values, kind, valid)
    if types.is_boolean(kind):
        return pa.Array.from_buffers(kind, count, [valid, _bits(values)])
    if types.is_list(kind):
        ends = [0, *accumulate(len(value) if value is not None else 0 for value in values)]
        inner = list(chain.from_iterable(value for value in values if value is not None))
        return pa.Array.from_buffers(
            kind, count, [valid, _numbers(ends, np.int32)],
            children=[array_of(inner, kind.value_type)],
        )  # fmt: skip
    if types.is_struct(kind):
        fields = [
            array_of([None if value is None else value.get(field.name) for value in values],
                     field.type)
            for field in kind
        ]  # fmt: skip
        return pa.Array.from_buffers(kind, count, [valid], children=fields)
    if not (types.is_int64(kind) or types.is_timestamp(kind)):
        raise TypeError(f"no column is made of {kind}")
    numbers = [0 if value is None else value for value in values] if missing else values
    return pa.Array.from_buffers(kind, count, [valid, _numbers(numbers, np.int64)])


def constant(number: int, rows: int) -> pa.Array:
    """A column of int32 that has the same number in all rows."""
    return numeric_array(np.full(rows, number, np.int32))


def counted(first: int, rows: int) -> pa.Array:
    """A column of int64 that goes up by one, from ``first`` on."""
    return numeric_array(np.arange(first, first + rows, dtype=np.int64))


def runs(ends: Sequence[int] | NDArray[np.int32], values: pa.Array) -> pa.RunEndEncodedArray:
    """A run-end encoded column: each value up to the row before its end."""
    kind = pa.run_end_encoded(_ENDS, values.type)
    rows = int(ends[-1]) if len(ends) else 0
    run_ends = numeric_array(np.asarray(ends, np.int32))
    return pa.RunEndEncodedArray.from_buffers(kind, rows, [None], children=[run_ends, values])


def _joined(values: Sequence[bytes | None], kind: pa.DataType, valid: pa.Buffer) -> pa.Array:
    parts = [value or b"" for value in values]
    ends = _numbers([0, *accumulate(map(len, parts))], np.int32)
    return pa.Array.from_buffers(kind, len(parts), [valid, ends, pa.py_buffer(b"".join(parts))])


def _numbers(values: Sequence[int], kind: type[np.signedinteger[Any]]) -> pa.Buffer:
    return pa.py_buffer(np.array(values, kind))


def _bits(values: Iterable[Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits([bool(value) for value in values], bitorder="little"))
