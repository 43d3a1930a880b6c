"""The rows of a spool as readers see them: segments, and exact ranges out of them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from aqueduct_core.errors import DataLoss, SpoolFailed
from aqueduct_core.spool.record import Codec, Damaged
from aqueduct_core.spool.segment import Index, Segment, read_record

SEGMENTS_KEPT = 64
"""Closed segments whose index and mapping stay in memory: a reader goes through few at a time."""

Load = Callable[[Segment], Index]


class Stored:
    """All segments of a spool. Any thread may read while the owner's thread adds and removes.

    Holds: rows up to ``ends`` and no further. ``load`` gives the index of a closed segment when it
    is not in memory; it may be called from any thread, also twice at a time.
    """

    def __init__(self, codec: Codec, partitions: int, load: Load) -> None:
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
    def ends(self) -> list[int]:
        """The durable end of each partition, exclusive."""
        return list(self._ends)

    @property
    def starts(self) -> list[int]:
        """The earliest offset of each partition that is still stored."""
        segments = self._segments
        return list(segments[0].starts) if segments else self.ends

    def publish(self, ends: Sequence[int]) -> None:
        """These ends are durable: reads may go up to them."""
        self._ends = tuple(ends)

    def add(self, segment: Segment) -> None:
        self._segments = (*self._segments, segment)

    def remove(self, segment: Segment) -> None:
        self._segments = tuple(each for each in self._segments if each is not segment)
        with self._lock:
            self._recent.pop(segment.number, None)
        segment.forget()

    def rest(self, segment: Segment) -> None:
        """A closed segment was used; the one not used for longest gives its memory back."""
        with self._lock:
            self._recent[segment.number] = segment
            self._recent.move_to_end(segment.number)
            while len(self._recent) > SEGMENTS_KEPT:
                self._recent.popitem(last=False)[1].forget()

    def read(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Exactly the rows ``[start, end)``, in order, checksums verified, in mapped memory.

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
            raise offset_ahead(partition, end, self._ends[partition])
        low = segments[0].starts[partition] if segments else self._ends[partition]
        if start < min(low, end):
            raise range_gone(partition, start, min(low, end))
        return self._rows(segments, partition, start, end)

    def _rows(
        self, segments: Sequence[Segment], partition: int, start: int, end: int
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
            yield from self._rows_of(segment, partition, at, stop)
            at = stop
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
                raise corrupt(segment, partition, at, None, str(error)) from None
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
        found = segment.find(partition, start, end)
        if found is None:
            try:
                index = self._load(segment)
            except FileNotFoundError:
                raise range_gone(partition, start, end) from None
            except OSError as error:
                raise corrupt(segment, partition, start, end, str(error)) from None
            segment.keep(index)
            found = index.find(partition, start, end)
        if segment.sealed is not None:
            self.rest(segment)
        return found


def range_gone(partition: int, start: int, end: int) -> DataLoss:
    return DataLoss(
        "RANGE_GONE",
        f"partition {partition}: offsets {start} to {end} (exclusive) are not stored any more",
        "Start from offsets that are stored, or set failOnDataLoss to false to go on without them",
    )


def offset_ahead(partition: int, asked: int, end: int) -> DataLoss:
    return DataLoss(
        "OFFSET_AHEAD",
        f"partition {partition}: offsets up to {asked} are named, but the spool is durable"
        f" up to {end}",
        "The checkpoint is ahead of the spool: bring the spool's directory back, or start a new"
        " query with a new checkpoint",
    )


def corrupt(
    segment: Segment, partition: int, start: int, end: int | None, reason: str
) -> SpoolFailed:
    offsets = f"offset {start}" if end is None else f"offsets {start} to {end} (exclusive)"
    return SpoolFailed(
        "CORRUPT",
        f"{segment.path}, partition {partition}, {offsets}: {reason}",
        "Check the disk; restore the segment from a copy, or start beyond the damaged record",
    )
