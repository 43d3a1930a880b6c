"""Leaves out the rows that a read did not ask for, before they become rows.

Where the messages of a run share their channel and producer, names are compared once a run; a
pattern is tried once for each name that a task meets.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_core.spool.arrays import text_array
from aqueduct_spark.formats.description import RowMapping
from aqueduct_spark.options.selection import Selection

NAMES_KEPT = 10_000
"""Answers of a pattern that are remembered; a name beyond them is matched again."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class RowFilter:
    """Says which rows of a stored batch a selection wants. Keeps no rows; one thread uses it."""

    def __init__(self, mapping: RowMapping, selection: Selection) -> None:
        self._mapping = mapping
        self._selection = selection
        if selection.pattern is not None:
            matches = re.compile(selection.pattern).fullmatch
            self._fits = lru_cache(NAMES_KEPT)(lambda name: matches(name) is not None)

    def mask(self, batch: pa.RecordBatch) -> Mask | None:
        """True for each wanted row; None when all of them are."""
        if self._selection.everything or not batch.num_rows:
            return None
        named = self._mapping.selectable(batch)
        if not pa.types.is_run_end_encoded(named.type):
            wanted = self._mask(named)
            return None if wanted.all() else wanted
        first, count = named.find_physical_offset(), named.find_physical_length()
        wanted = self._mask(named.values.slice(first, count))
        if wanted.all():
            return None
        ends = named.run_ends.to_numpy()[first : first + count] - named.offset
        return np.repeat(wanted, np.diff(np.minimum(ends, len(named)), prepend=0))

    def _mask(self, named: pa.StructArray) -> Mask:
        selection = self._selection
        # flatten() honours the offset of a slice, field() does not
        columns = dict(zip((f.name for f in named.type), named.flatten(), strict=True))
        wanted: Mask = np.ones(len(named), np.bool_)
        if selection.channels is not None:
            wanted &= _among(columns["channel"], selection.channels)
        if selection.pattern is not None:
            names = columns["channel"].unique().to_pylist()
            fitting = [name for name in names if name is not None and self._fits(name)]
            wanted &= _among(columns["channel"], fitting)
        if selection.producers is not None:
            wanted &= _among(columns["producer"], selection.producers)
        return wanted


def _among(column: pa.Array, names: list[str] | tuple[str, ...]) -> Mask:
    found: Mask = pc.is_in(column, value_set=text_array(names)).to_numpy(zero_copy_only=False)
    return found
