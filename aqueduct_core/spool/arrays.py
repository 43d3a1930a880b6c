"""Arrow arrays from numbers and texts and back, without ``pyarrow.array``, ``pyarrow.scalar`` and
``Array.to_numpy``.

Those import pandas with their first call, in case they were given something of it: half a second
and 60 MB in every process that makes one array. A worker of Spark or an intake has no other use
for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

Values: TypeAlias = np.ndarray[Any, np.dtype[Any]]


def numeric_array(values: Values) -> pa.Array:
    """Integers or floats, each of them valid; nothing is copied where they lie in a row."""
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def mask_array(values: Sequence[bool] | Values) -> pa.Array:
    """Truth values, each of them valid."""
    bits = np.packbits(np.asarray(values, np.bool_), bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


def text_array(values: Sequence[str | None]) -> pa.Array:
    """Texts of type ``string``, less than 2 GiB of them.

    Raises:
        UnicodeEncodeError: one has a lone surrogate.
    """
    encoded = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)]).astype(np.int32)
    missing = [value is None for value in values]
    valid = None
    if any(missing):
        valid = pa.py_buffer(np.packbits(~np.array(missing, np.bool_), bitorder="little"))
    data = pa.py_buffer(b"".join(encoded))
    return pa.Array.from_buffers(pa.string(), len(encoded), [valid, pa.py_buffer(ends), data])


def text_scalar(value: str) -> pa.Scalar:
    """One text, to compare with or to repeat."""
    return text_array([value])[0]


def binary_array(values: Sequence[bytes]) -> pa.Array:
    """Bytes of type ``large_binary``, each of them valid."""
    ends = np.cumsum([0, *map(len, values)]).astype(np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def numbers_in(array: pa.Array) -> Values:
    """The integers or floats of an array, 0 where there is none; a view where all are valid."""
    kind = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.zeros(0, kind)
    valid, data = array.buffers()
    stop = array.offset + len(array)
    values = np.frombuffer(data, kind, stop)[array.offset :]
    if not array.null_count:
        return values
    bits = np.unpackbits(np.frombuffer(valid, np.uint8), count=stop, bitorder="little")
    return np.where(bits[array.offset :], values, kind.type(0))
