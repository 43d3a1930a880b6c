"""The rows of a spool as readers see them: segments, and exact ranges out of them."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from aqueduct_core.spool.losses import corrupt, offset_ahead, range_gone
from aqueduct_core.spool.record import Codec, Damaged
from aqueduct_core.spool.segment import Index, Segment, Span, read_record

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
        segments = self._checked(partition, start, end)
        return self._rows(segments, partition, start, end)

    def spans(
        self, partition: int, start: int, end: int
    ) -> Iterator[tuple[Segment, int, int, list[Span]]]:
        """Each segment with rows of ``[start, end)``: those rows ``[at, stop)``, and the records
        that may hold them. No payload is touched. The range is checked at once, as by ``read``.

        Raises:
            DataLoss: RANGE_GONE, OFFSET_AHEAD.
            SpoolFailed: CORRUPT when a segment cannot be read.
        """
        segments = self._checked(partition, start, end)
        return (
            (segment, at, stop, self._spans_of(segment, partition, at, stop))
            for segment, at, stop in self._parts(segments, partition, start, end)
        )

    def bisect(self, partition: int, is_before: Callable[[pa.RecordBatch], bool]) -> int:
        """The first durable offset whose row is not before; the end when all are. ``is_before``
        says it of all rows of a batch together.

        Raises:
            DataLoss: RANGE_GONE when a file is not there any more.
            SpoolFailed: CORRUPT when a record on the way is damaged.
        """
        end = self._ends[partition]

        def rows(segment: Segment, span: Span) -> pa.RecordBatch:
            wanted = span.first, span.stop
            return self._record(segment, partition, span.first, span.position, wanted)

        def reaches(segment: Segment) -> bool:
            stop = min(segment.ends[partition], end)
            last = self._spans_of(segment, partition, stop - 1, stop)
            if not last:
                reason = "no readable record holds it"
                raise corrupt(segment.path, partition, stop - 1, None, reason)
            return not is_before(rows(segment, last[-1]))

        segments = [
            segment
            for segment in self._segments
            if segment.starts[partition] < min(segment.ends[partition], end)
        ]
        found = bisect_left(segments, True, key=reaches)
        if found == len(segments):
            return end
        segment = segments[found]
        spans = self._spans_of(segment, partition, segment.starts[partition], end)
        span = spans[bisect_left(spans, True, key=lambda span: not is_before(rows(segment, span)))]
        batch = rows(segment, span)
        return span.first + bisect_left(
            range(batch.num_rows), True, key=lambda row: not is_before(batch.slice(row, 1))
        )

    def _checked(self, partition: int, start: int, end: int) -> Sequence[Segment]:
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
        return segments

    @staticmethod
    def _parts(
        segments: Sequence[Segment], partition: int, start: int, end: int
    ) -> Iterator[tuple[Segment, int, int]]:
        """The segments that hold ``[start, end)``, with the part of it that each holds."""
        at = start
        for segment in segments:
            if at >= end:
                return
            if segment.ends[partition] <= at or segment.starts[partition] >= end:
                continue
            if segment.starts[partition] > at:
                raise range_gone(partition, at, segment.starts[partition])
            stop = min(end, segment.ends[partition])
            yield segment, at, stop
            at = stop
        if at < end:
            raise range_gone(partition, at, end)

    def _rows(
        self, segments: Sequence[Segment], partition: int, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        for segment, at, stop in self._parts(segments, partition, start, end):
            yield from self._rows_of(segment, partition, at, stop)

    def _rows_of(
        self, segment: Segment, partition: int, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        at = start
        for first, position in self._find(segment, partition, start, end):
            if first > at:
                raise corrupt(segment.path, partition, at, first, "no readable record holds them")
            batch = self._record(segment, partition, first, position, (at, end))
            stop = min(first + batch.num_rows, end)
            if stop <= at:
                continue
            yield batch.slice(at - first, stop - at)
            at = stop
        if at < end:
            raise corrupt(segment.path, partition, at, end, "no readable record holds them")

    def _record(
        self,
        segment: Segment,
        partition: int,
        first: int,
        position: int,
        wanted: tuple[int, int],
    ) -> pa.RecordBatch:
        """All rows of the record at a position; errors name the offsets that were wanted."""
        try:
            record, batch = read_record(segment, self.codec, partition, position)
        except FileNotFoundError:
            raise range_gone(partition, *wanted) from None
        except (Damaged, OSError, pa.ArrowException) as error:
            raise corrupt(segment.path, partition, wanted[0], None, str(error)) from None
        if record.first != first:
            raise corrupt(
                segment.path, partition, wanted[0], None, "the index names another record"
            )
        return batch

    def _find(
        self, segment: Segment, partition: int, start: int, end: int
    ) -> list[tuple[int, int]]:
        found = segment.find(partition, start, end)
        if found is None:
            found = self._loaded(segment, partition, start, end).find(partition, start, end)
        self._used(segment)
        return found

    def _spans_of(self, segment: Segment, partition: int, start: int, end: int) -> list[Span]:
        found = segment.spans(partition, start, end)
        if found is None:
            index = self._loaded(segment, partition, start, end)
            last = segment.ends[partition]
            found = index.spans(partition, start, end, last, segment.size)
        self._used(segment)
        return found

    def _loaded(self, segment: Segment, partition: int, start: int, end: int) -> Index:
        try:
            index = self._load(segment)
        except FileNotFoundError:
            raise range_gone(partition, start, end) from None
        except OSError as error:
            raise corrupt(segment.path, partition, start, end, str(error)) from None
        segment.keep(index)
        return index

    def _used(self, segment: Segment) -> None:
        if segment.sealed is not None:
            self.rest(segment)
