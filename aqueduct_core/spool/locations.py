"""Where rows lie, how many bytes they take there, and reading them from any process of the same
host."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.spool.format.record import Codec, Damaged
from aqueduct_core.spool.format.scan import next_record
from aqueduct_core.spool.format.segment import Segment, Span, map_file, record_at, segment_number
from aqueduct_core.spool.health import failed_by
from aqueduct_core.spool.losses import corrupt, range_gone

BATCH_BYTES = 512 * 1024
"""Stored batches are joined until they have that many bytes: a group of 20 ms may hold a few rows
only, and a reader of tiny batches is ten times slower. Larger ones go out as they are."""


class Location(NamedTuple):
    """Rows ``[first, stop)`` of a partition, in ``length`` bytes from ``position`` of a file.

    The bytes start with a record; its first rows may be before ``first``, its last ones after
    ``stop``. ``device`` and ``inode`` are those of the file on the host of the owner, ``stamp``
    that of its records.
    """

    partition: int
    path: str
    position: int
    length: int
    first: int
    stop: int
    device: int
    inode: int
    stamp: str


def locations_of(
    segment: Segment, partition: int, start: int, stop: int, spans: Iterable[Span]
) -> Iterator[Location]:
    """Where the rows ``[start, stop)`` of one segment lie; records side by side are one location.

    Raises:
        FileNotFoundError: the file is not there any more.
        SpoolFailed: CORRUPT when no record of the segment can be read; IO.
    """
    runs: list[list[Span]] = []
    for span in spans:
        if runs and runs[-1][-1].end == span.position:
            runs[-1].append(span)
        else:
            runs.append([span])
    if not runs:
        raise corrupt(segment.path, partition, start, stop, "no readable record holds them")
    try:
        found = os.stat(segment.path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise failed_by(segment.path.parent, error) from None
    first = start
    for i, run in enumerate(runs):
        # a hole before the next run belongs to this location: its reader finds it
        end = min(stop, runs[i + 1][0].first) if i + 1 < len(runs) else stop
        position, length = run[0].position, run[-1].end - run[0].position
        yield Location(
            partition,
            str(segment.path),
            position,
            length,
            first,
            end,
            found.st_dev,
            found.st_ino,
            segment.stamp,
        )
        first = end


def are_here(locations: Iterable[Location]) -> bool:
    """Whether these very files are found by their paths in this process."""
    for path, device, inode in {(each.path, each.device, each.inode) for each in locations}:
        try:
            found = os.stat(path)
        except OSError:
            return False
        if (found.st_dev, found.st_ino) != (device, inode):
            return False
    return True


def read_locations(locations: Iterable[Location], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Exactly the rows of the locations, in order, checksums verified, in mapped memory.

    The same as ``Spool.read`` of their range gives in the owner's process; what was read stays
    valid after truncation.

    Raises:
        DataLoss: RANGE_GONE when a file is not there any more.
        SpoolFailed: CORRUPT with segment, partition and offsets; what is before was yielded.
    """
    codec = Codec(schema)
    for location in locations:
        yield from _rows(location, codec)


def _rows(location: Location, codec: Codec) -> Iterator[pa.RecordBatch]:
    path, at = Path(location.path), location.first
    end = location.position + location.length
    try:
        data = map_file(path, end)
    except FileNotFoundError:
        raise range_gone(path.parent, location.partition, at, location.stop) from None
    except OSError as error:
        raise corrupt(path, location.partition, at, location.stop, str(error)) from None
    view = memoryview(data)
    number, position = segment_number(path.name), location.position
    reason = "no readable record holds them"
    while at < location.stop and position < end:
        try:
            record, batch = record_at(data, codec, position, number, location.stamp)
        except (Damaged, pa.ArrowException) as error:
            reason = str(error)
            # what is damaged may have been rows of another partition
            position = next_record(data, view, position + 8, number)
            continue
        position = record.end
        if batch is None or record.partition != location.partition or record.stop <= at:
            continue
        if record.first > at:
            break
        stop = min(record.stop, location.stop)
        yield batch.slice(at - record.first, stop - at)
        at = stop
    if at < location.stop:
        raise corrupt(path, location.partition, at, location.stop, reason)


def measured(spans: Iterable[Span], start: int, end: int, step: int) -> list[tuple[int, int]]:
    """How many bytes rows take, from the positions of their records alone: ascending (offset,
    bytes from ``start``), a point when ``step`` more bytes were reached.

    The last point is that of ``end``. Rows of one record count alike, so points inside a record are
    estimates; those at its ends are exact.
    """
    points: list[tuple[int, int]] = []
    total = reported = 0.0
    for span in spans:
        at, stop = max(span.first, start), min(span.stop, end)
        each = (span.end - span.position) / (span.stop - span.first)
        while at < stop:
            rows = min(stop - at, max(1, math.ceil((reported + step - total) / each)))
            at += rows
            total += rows * each
            if total - reported >= step:
                points.append((at, round(total)))
                reported = total
    if not points or points[-1][0] != end:
        points.append((end, round(total)))
    return points


def coalesced(
    batches: Iterator[pa.RecordBatch], leave_out: Collection[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, small neighbours joined to about `BATCH_BYTES`; without the
    columns of ``leave_out``, which cost as much as others where they are null."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    kept: list[str] | None = None
    for batch in batches:
        if leave_out:
            if kept is None:
                kept = [name for name in batch.schema.names if name not in leave_out]
            batch = batch.select(kept)
        gathered.append(batch)
        size += batch.nbytes
        if size >= BATCH_BYTES:
            yield gathered[0] if len(gathered) == 1 else pa.concat_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield gathered[0] if len(gathered) == 1 else pa.concat_batches(gathered)
