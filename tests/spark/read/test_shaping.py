"""Stored batches as Spark gets them: in pieces that fit."""

from __future__ import annotations

import pyarrow as pa

from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_spark.read.shaping import MAX_BATCH_BYTES, bounded
from tests.spark.read.test_filters import stored


def test_large_batches_are_cut_and_small_ones_stay_whole() -> None:
    batch = stored(("a", "x", 5_000), size=1_000)
    pieces = list(bounded(batch, 40))
    assert len(pieces) > 3
    assert all(piece.nbytes <= 1.1 * MAX_BATCH_BYTES for piece, _ in pieces)
    assert sum(piece.num_rows for piece, _ in pieces) == 5_000
    at = 40
    for piece, first in pieces:
        assert first == at
        at += piece.num_rows
    assert pa.Table.from_batches([p for p, _ in pieces]).column("messageNum").to_pylist() == list(
        range(5_000)
    )
    assert next(p for p, _ in bounded(stored(("a", "x", 100)), 0)).num_rows == 100


def test_a_message_larger_than_a_batch_goes_alone() -> None:
    values = pa.array([b"s", b"x" * (3 * MAX_BATCH_BYTES), b"s", b"s"], pa.binary())
    base = stored(("a", "x", 4))
    batch = pa.RecordBatch.from_arrays([values, *base.columns[1:]], schema=ROWS.schema)
    assert [(p.num_rows, first) for p, first in bounded(batch, 0)] == [(1, 0), (1, 1), (2, 2)]
