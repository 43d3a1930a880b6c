"""The rows of a spool as readers see them: segments, and exact ranges out of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator

import pyarrow as pa

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool.record import Codec, Damaged
from aqueduct_core.spool.segment import Index, Segment, read_record

INDEXES_KEPT = 64
"""Indexes and mappings of closed segments kept in memory: a reader goes through few at a time."""

Loader = Callable[[Segment], Index]


class Stored:
    """All segments of a spool. Any thread may read while the owner's thread adds and removes.

    ``load`` gives the index of a closed segment when it is not in memory.
    """

    def __init__(self, codec: Codec, partitions: int, load: Loader) -> None:
        self.codec = codec
        self.partitions = partitions
        self._load = load
        self._lock = threading.Lock()
        self._segments: tuple[Segment, ...] = ()
        self._recent: OrderedDict[int, Segment] = OrderedDict()
        self._ends: tuple[int, ...] = (0,) * partitions

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first."""
        return self._segments

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def ends(self) -> list[int]:
        """The durable end of each partition, exclusive."""
        return list(self._ends)

    @property
    def starts(self) -> list[int]:
        """The earliest offset still stored of each partition."""
        segments = self._segments
        return list(segments[0].starts) if segments else self.ends

    def publish(self, ends: list[int]) -> None:
        """These ends are durable: reads may go up to them."""
        self._ends = tuple(ends)

    def add(self, segment: Segment) -> None:
        with self._lock:
            self._segments = (*self._segments, segment)

    def remove(self, segment: Segment) -> None:
        with self._lock:
            self._segments = tuple(s for s in self._segments if s is not segment)
            self._recent.pop(segment.number, None)
        segment.forget_data()

    def read(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Exactly the rows ``[start, end)``, in order, checksums verified, lying in the mapped files.

        The range is checked at once; damage is found when its record is reached.

        Raises:
            DataLoss: RANGE_GONE for rows no longer stored, OFFSET_AHEAD beyond the durable end.
            SpoolFailed: CORRUPT with segment, partition and offsets; what is before was yielded.
        """
        if not 0 <= partition < self.partitions:
            raise ValueError(f"partition {partition} of {self.partitions}")
        if not 0 <= start <= end:
            raise ValueError(f"range {start} to {end}")
        segments = self._segments
        if end > self._ends[partition]:
            raise DataLoss(
                "OFFSET_AHEAD",
                f"partition {partition}: offsets up to {end} are asked for,"
                f" but the spool is durable up to {self._ends[partition]}",
                "The checkpoint is ahead of the spool: bring the spool's directory back, or start a new"
                " query with a new checkpoint",
            )
        if start < end:
            low = segments[0].starts[partition] if segments else self._ends[partition]
            if start < low:
                raise range_gone(partition, start, min(low, end))
        return self._rows(segments, partition, start, end)

    def _rows(
        self, segments: tuple[Segment, ...], partition: int, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        at = start
        for segment in segments:
            if at >= end:
                return
            if segment.ends[partition] <= at or segment.starts[partition] >= end:
                continue
            if segment.starts[partition] > at:
                raise range_gone(partition, at, segment.starts[partition])
            stop = min(end, segment.ends[partition])
            for batch in self._rows_of(segment, partition, at, stop):
                at += batch.num_rows
                yield batch
        if at < end:
            raise range_gone(partition, at, end)

    def _rows_of(
        self, segment: Segment, partition: int, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        at = start
        for first, position in self._find(segment, partition, start, end):
            if first > at:
                raise corrupt(segment, partition, at, first, "no readable record holds them")
            try:
                record, batch = read_record(segment, self.codec, partition, position)
            except FileNotFoundError:
                raise range_gone(partition, at, end) from None
            except (Damaged, OSError, pa.ArrowException) as error:
                raise corrupt(segment, partition, max(at, first), None, str(error)) from None
            if record.first != first:
                raise corrupt(segment, partition, at, None, "the index names another record")
            if record.stop <= at:
                continue
            stop = min(record.stop, end)
            yield batch.slice(at - first, stop - at)
            at = stop
        if at < end:
            raise corrupt(segment, partition, at, end, "no readable record holds them")

    def _find(
        self, segment: Segment, partition: int, start: int, end: int
    ) -> list[tuple[int, int]]:
        with self._lock:
            index = segment.index()
            if segment.sealed is not None:
                if index is None:
                    index = self._load(segment)
                    segment.keep_index(index)
                self._recent[segment.number] = segment
                self._recent.move_to_end(segment.number)
                while len(self._recent) > INDEXES_KEPT:
                    _, old = self._recent.popitem(last=False)
                    old.keep_index(None)
                    old.forget_data()
                return index.find(partition, start, end)
        return segment.find(partition, start, end)


def range_gone(partition: int, start: int, end: int) -> DataLoss:
    return DataLoss(
        "RANGE_GONE",
        f"partition {partition}: offsets {start} to {end} (exclusive) are not stored any more",
        "Start from offsets that are stored, or set failOnDataLoss to false to go on without these rows",
    )


def corrupt(
    segment: Segment, partition: int, start: int, end: int | None, reason: str
) -> SpoolFailed:
    offsets = f"offset {start}" if end is None else f"offsets {start} to {end} (exclusive)"
    return SpoolFailed(
        "CORRUPT",
        f"{segment.path.name}, partition {partition}, {offsets}: {reason}",
        "Check the disk; restore the segment from a copy, or start beyond the damaged record",
    )
