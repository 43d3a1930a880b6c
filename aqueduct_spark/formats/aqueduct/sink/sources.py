"""Where rows come from: the columns ``spool``, ``partition`` and ``offset`` of our source."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aqueduct_core.aqueduct.conventions.headers import MAX_SEQUENCE
from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_core.primitives.number_set import NumberSet
from aqueduct_core.primitives.ranges import Numbers, stretches
from aqueduct_core.spool.arrays import numbers_in
from aqueduct_spark.formats.aqueduct.options import SOURCE_COLUMNS
from aqueduct_spark.write.batches import Destination

MAX_SPOOL_CHARACTERS = 128


class Places(NamedTuple):
    """For each row ``names[codes[row]]``, ``spool/partition``, and its offset there."""

    codes: Numbers
    names: list[str]
    offsets: Numbers


class SourceColumns:
    """Takes the columns off the rows of one task, and sees to it that no two are one row.

    Keeps a bit for each row of the task, about (`NumberSet`).
    """

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], NumberSet] = {}

    def take(self, piece: pa.RecordBatch) -> tuple[pa.RecordBatch, Places]:
        """The rows without these columns, and what they say.

        Raises:
            SchemaMismatch: REQUIRED for a null, COLUMN_TYPE for a value that is no place.
        """
        for name in SOURCE_COLUMNS:
            nulls = piece.column(name).null_count
            if nulls:
                raise SchemaMismatch(
                    "REQUIRED",
                    f"Column '{name}' is null in {nulls} of {piece.num_rows} rows; with "
                    "idempotence=source each row says where it comes from",
                    "Filter these rows, or leave 'idempotence' out",
                )
        spools = piece.column("spool").dictionary_encode()
        names = spools.dictionary.to_pylist()
        for spool in names:
            if not (0 < len(spool) <= MAX_SPOOL_CHARACTERS and spool.isascii()
                    and spool.isprintable()):  # fmt: skip
                raise _no_place("spool", spool[:40], "the identity of a spool")
        partitions = numbers_in(piece.column("partition")).astype(np.int64)
        offsets = numbers_in(piece.column("offset"))
        for name, numbers in (("partition", partitions), ("offset", offsets)):
            if numbers.min(initial=0) < 0:
                raise _no_place(name, numbers.min(), "0 or more")
            if numbers.max(initial=0) >= MAX_SEQUENCE:
                raise _no_place(name, numbers.max(), "below 2^62")
        pairs = np.stack([numbers_in(spools.indices).astype(np.int64), partitions])
        found, codes = np.unique(pairs, axis=1, return_inverse=True)
        places = Places(
            codes.reshape(-1).astype(np.int64),
            [f"{names[spool]}/{partition}" for spool, partition in found.T.tolist()],
            offsets,
        )
        kept = [name for name in piece.schema.names if name not in SOURCE_COLUMNS]
        return piece.select(kept), places

    def note(self, destination: Destination, offsets: Numbers) -> None:
        """These rows are about to go there.

        Raises:
            SinkFailed: ROW_REPEATED: one of them went there before.
        """
        sent = self._sent.setdefault((destination.source, destination.channel), NumberSet())
        for low, high in stretches(offsets):
            first = int(offsets[low])
            if sent.missing(first, first + high - low) != [(first, first + high - low)]:
                raise SinkFailed(
                    "ROW_REPEATED",
                    f"Two rows for channel '{destination.channel}' come from one place, among "
                    f"offsets {first} to {first + high - low - 1} of {destination.source}: with "
                    "idempotence=source the second would be taken for a repeat of the first",
                    "Give each its own channel, drop duplicates, or leave 'idempotence' out",
                )
            sent.add(first, first + high - low)


def _no_place(name: str, value: object, allowed: str) -> SchemaMismatch:
    return SchemaMismatch(
        "COLUMN_TYPE",
        f"Column '{name}' holds '{value}'; it must be {allowed}",
        "Keep the column as the source gives it",
    )
