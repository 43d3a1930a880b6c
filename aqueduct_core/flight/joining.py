"""Small batches become fewer ones, the same wherever rows are read from."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

BATCH_BYTES = 512 * 1024
"""Stored batches are joined until they have that many bytes: a group of 20 ms may hold a few
rows only, and a reader of tiny batches is ten times slower. Larger ones go out as they are."""


def joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, small neighbours joined to about `BATCH_BYTES`."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= BATCH_BYTES:
            yield held[0] if len(held) == 1 else pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield held[0] if len(held) == 1 else pa.concat_batches(held)
