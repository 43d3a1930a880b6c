"""Where rows lie, and reading them there from any process of the same host."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.spool.format.record import Codec, Damaged
from aqueduct_core.spool.format.scan import next_record
from aqueduct_core.spool.format.segment import Segment, Span, map_file, record_at, segment_number
from aqueduct_core.spool.health import io_failed
from aqueduct_core.spool.losses import corrupt, range_gone


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


def pieces_of(
    segment: Segment, partition: int, start: int, stop: int, spans: Iterable[Span]
) -> Iterator[Location]:
    """The pieces that hold ``[start, stop)`` of one segment; records side by side are one.

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
        raise io_failed(segment.path.parent, str(error)) from None
    first = start
    for i, run in enumerate(runs):
        # a hole before the next run belongs to this piece: its reader finds it
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


def are_here(pieces: Iterable[Location]) -> bool:
    """Whether these very files are found by their paths in this process."""
    for path, device, inode in {(each.path, each.device, each.inode) for each in pieces}:
        try:
            found = os.stat(path)
        except OSError:
            return False
        if (found.st_dev, found.st_ino) != (device, inode):
            return False
    return True


def read_pieces(pieces: Iterable[Location], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Exactly the rows of the pieces, in order, checksums verified, in mapped memory.

    The same as ``Spool.read`` of their range gives in the owner's process; what was read stays
    valid after truncation.

    Raises:
        DataLoss: RANGE_GONE when a file is not there any more.
        SpoolFailed: CORRUPT with segment, partition and offsets; what is before was yielded.
    """
    codec = Codec(schema)
    for piece in pieces:
        yield from _rows(piece, codec)


def _rows(piece: Location, codec: Codec) -> Iterator[pa.RecordBatch]:
    path, at = Path(piece.path), piece.first
    end = piece.position + piece.length
    try:
        data = map_file(path, end)
    except FileNotFoundError:
        raise range_gone(path.parent, piece.partition, at, piece.stop) from None
    except OSError as error:
        raise corrupt(path, piece.partition, at, piece.stop, str(error)) from None
    view = memoryview(data)
    number, position = segment_number(path.name), piece.position
    reason = "no readable record holds them"
    while at < piece.stop and position < end:
        try:
            record, batch = record_at(data, codec, position, number, piece.stamp)
        except (Damaged, pa.ArrowException) as error:
            reason = str(error)
            # what is damaged may have been rows of another partition
            position = next_record(data, view, position + 8, number)
            continue
        position = record.end
        if batch is None or record.partition != piece.partition or record.stop <= at:
            continue
        if record.first > at:
            break
        stop = min(record.stop, piece.stop)
        yield batch.slice(at - record.first, stop - at)
        at = stop
    if at < piece.stop:
        raise corrupt(path, piece.partition, at, piece.stop, reason)
