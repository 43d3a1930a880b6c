"""Leaves out the rows that a read did not ask for, before they become rows.

All messages of a run share their channel and producer, so names are compared once a run, and a
pattern is tried once for each name that a task meets.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from aqueduct_spark.options.selection import Selection

NAMES_KEPT = 10_000
"""Answers of a pattern that are remembered; a name beyond them is matched again."""

Mask = np.ndarray[Any, np.dtype[np.bool_]]


class Sieve:
    """Says which rows of a stored batch a selection wants. Keeps no rows; one thread uses it."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        if selection.pattern is not None:
            matches = re.compile(selection.pattern).fullmatch
            self._fits = lru_cache(NAMES_KEPT)(lambda name: matches(name) is not None)

    def mask(self, batch: pa.RecordBatch) -> Mask | None:
        """True for each wanted row; None when all of them are."""
        if self._selection.everything or not batch.num_rows:
            return None
        source = batch.column("source")
        first, count = source.find_physical_offset(), source.find_physical_length()
        runs = source.values.slice(first, count)
        wanted = self._of_runs(runs)
        if wanted.all():
            return None
        ends = source.run_ends.to_numpy()[first : first + count] - source.offset
        return np.repeat(wanted, np.diff(np.minimum(ends, len(source)), prepend=0))

    def _of_runs(self, runs: pa.StructArray) -> Mask:
        asked = self._selection
        # flatten() honours the offset of a slice, field() does not
        columns = dict(zip((f.name for f in runs.type), runs.flatten(), strict=True))
        wanted: Mask = np.ones(len(runs), np.bool_)
        if asked.channels is not None:
            wanted &= _among(columns["channel"], asked.channels)
        if asked.pattern is not None:
            names = columns["channel"].unique().to_pylist()
            fitting = [name for name in names if name is not None and self._fits(name)]
            wanted &= _among(columns["channel"], fitting)
        if asked.producers is not None:
            wanted &= _among(columns["producer"], asked.producers)
        return wanted


def _among(column: pa.Array, names: list[str] | tuple[str, ...]) -> Mask:
    found: Mask = pc.is_in(column, value_set=pa.array(names, pa.string())).to_numpy(
        zero_copy_only=False
    )
    return found
