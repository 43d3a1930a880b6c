"""Spools for tests of reads: rows stored without an intake, or by one that serves them here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from aqueduct_core.intake.aqueduct.rows import ATTACHMENTS, HEADERS, ROWS, SOURCE
from aqueduct_core.intake.storage.layout import settle_layout
from aqueduct_core.spool import InlineSync, Spool, SpoolSettings

DAY = 86_400_000_000
"""Microseconds."""

MORNING = 20_000 * DAY
"""When the first row of a spool was received; row *n* of a partition came *n* ms later."""


def rows(
    first: int,
    count: int,
    *,
    partition: int = 0,
    channel: str = "a",
    producer: str = "p",
    size: int = 0,
) -> pa.RecordBatch:
    """Rows whose value tells partition and offset, padded to ``size``; one run each millisecond."""
    numbers = range(first, first + count)
    sources = [
        {
            "channel": channel,
            "producer": producer,
            "reliable": True,
            "timestamp": MORNING + number * 1000,
            "connectionId": "c",
            "channelId": 4,
        }
        for number in numbers
    ]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([value(partition, n).ljust(size) for n in numbers], pa.binary()),
            pa.array(numbers, pa.int64()),
            pa.nulls(count, HEADERS),
            pa.nulls(count, ATTACHMENTS),
            pa.RunEndEncodedArray.from_arrays(
                pa.array(range(1, count + 1), pa.int32()), pa.array(sources, SOURCE)
            ),
            ROWS.no_events(count),
        ],
        schema=ROWS.schema,
    )


def value(partition: int, offset: int) -> bytes:
    return b"%d/%d" % (partition, offset)


def open_spool(directory: Path, *, partitions: int = 2, segment_bytes: int = 1 << 20) -> Spool:
    """A spool as an intake with that many message partitions makes it."""
    settle_layout(directory, partitions)
    return Spool.open(
        directory,
        schema=ROWS.schema,
        partitions=partitions + 1,
        settings=SpoolSettings(segment_bytes=segment_bytes),
        sync=InlineSync,
    )


def store(
    spool: Spool, batches: Sequence[tuple[int, pa.RecordBatch]], *, settle: bool = True
) -> None:
    """Make (log, batch) durable, in one group."""
    for log, batch in batches:
        spool.append(log, batch, [])
    if settle:
        assert spool.settle(10)


def filled(
    directory: Path,
    counts: Sequence[int] = (30, 20),
    *,
    grain: int = 10,
    size: int = 0,
    segment_bytes: int = 1 << 20,
) -> None:
    """Make a spool with ``counts`` rows in its message partitions, ``grain`` in a record."""
    with open_spool(directory, partitions=len(counts), segment_bytes=segment_bytes) as spool:
        for first in range(0, max(counts), grain):
            store(
                spool,
                [
                    (
                        partition,
                        rows(first, min(grain, count - first), partition=partition, size=size),
                    )
                    for partition, count in enumerate(counts)
                    if first < count
                ],
            )
