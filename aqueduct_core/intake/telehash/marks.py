"""The mark of a row that a sink sent, by which it is known on whatever line it comes again.

It stands under ``_`` of a packet, beside what the application may have there: ``q`` names the
query, ``e`` its batch, ``p`` the partition of it and ``i`` the row in that. A packet without one is
stored as it comes: within a line each once, across lines at least once.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from aqueduct_core.aqueduct.conventions.dedupe.numbering import MAX_BATCH, MAX_ROWS, first_number
from aqueduct_core.primitives.ranges import Numbers
from aqueduct_core.telehash.events import PacketBatch

MARK = ("q", "e", "p", "i")
"""The keys of a mark."""

LONGEST_QUERY = 128
"""Characters of ``q``; a longer one marks nothing."""


class _Mark(msgspec.Struct):
    q: Annotated[str, Meta(min_length=1, max_length=LONGEST_QUERY)]
    e: Annotated[int, Meta(ge=0, le=MAX_BATCH)]
    p: Annotated[int, Meta(ge=0, lt=1 << 31)]
    i: Annotated[int, Meta(ge=0, lt=MAX_ROWS)]


_DECODER = msgspec.json.Decoder(_Mark)


class MarkedRun(NamedTuple):
    """Neighbours in a batch whose marks are of one query and partition. ``writer`` names these;
    None: they have no marks. ``numbers`` are those of batch and row."""

    batch: PacketBatch
    writer: str | None = None
    numbers: Numbers | None = None


def runs_of(batch: PacketBatch) -> list[MarkedRun]:
    """A batch, cut where marks are of another query or partition, or begin or end. What JSON a
    marked packet has counts as content of it, which is compared when it comes again."""
    marks = [_mark_of(each) for each in batch.js] if batch.reliable else []
    if not any(marks):
        return [MarkedRun(batch)]
    writers = [None if mark is None else f"{mark.q}/{mark.p}" for mark in marks]
    starts = [at for at in range(batch.count) if not at or writers[at] != writers[at - 1]]
    runs = []
    for low, high in zip(starts, [*starts[1:], batch.count], strict=True):
        part = part_of(batch, low, high)
        numbers = [first_number(mark.e) + mark.i for mark in marks[low:high] if mark is not None]
        if not numbers:
            runs.append(MarkedRun(part))
            continue
        content = {at: ((b"_", js),) for at, js in enumerate(part.js) if js is not None}
        marked = replace(part, headers=content)
        runs.append(MarkedRun(marked, writers[low], np.array(numbers, np.int64)))
    return runs


def part_of(batch: PacketBatch, low: int, high: int) -> PacketBatch:
    """The packets ``[low, high)`` of a batch; of all parts together the sizes are that of it."""
    if (low, high) == (0, batch.count):
        return batch
    ends = batch.offsets[low : high + 1]
    begin, end = int(ends[0]), int(ends[-1])
    return replace(
        batch,
        first=batch.first + low,
        count=high - low,
        payload=batch.payload[begin:end],
        offsets=ends - begin,
        size=batch.size * high // batch.count - batch.size * low // batch.count,
        js=batch.js[low:high],
        end=batch.end and high == batch.count,
    )


def _mark_of(js: bytes | None) -> _Mark | None:
    if js is None or b'"q"' not in js:
        return None
    try:
        mark = _DECODER.decode(js)
    except msgspec.DecodeError:
        return None
    return None if "\0" in mark.q else mark


def marked(query: str, batch: int, partition: int, row: int) -> dict[str, str | int]:
    """The mark of a row, as it stands under ``_``."""
    return dict(zip(MARK, (query, batch, partition, row), strict=True))
