"""The rows of a spool as readers see them: segments, and exact ranges out of them."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from aqueduct_core.errors import AqueductError
from aqueduct_core.primitives.ranges import RangeSet
from aqueduct_core.spool.format.record import Codec, Damaged
from aqueduct_core.spool.format.segment import Index, Segment, Span, read_record
from aqueduct_core.spool.health import failed_by
from aqueduct_core.spool.losses import corrupt, offset_ahead, out_of_sight, range_gone, skipped
from aqueduct_core.spool.skips import Skip, Stretch, skipped_in

SEGMENTS_KEPT = 64
"""Closed segments whose index and mapping stay in memory: a reader goes through few at a time."""

_NO_RECORD = "no readable record holds them"

Load = Callable[[Segment], Index]


class Segments:
    """All segments of a spool. Any thread may read while the owner's thread adds and removes.

    Holds: rows up to ``ends`` and no further; none that were skipped. ``load`` gives the index of a
    closed segment when it is not in memory; ``in_sight`` says whether the directory can be seen,
    and is that of the spool: a file that is not found in it is gone then. Both may be called from
    any thread, also twice at a time.
    """

    def __init__(
        self,
        directory: Path,
        codec: Codec,
        partitions: int,
        load: Load,
        in_sight: Callable[[], bool],
    ) -> None:
        self.directory = directory
        self.codec = codec
        self.partitions = partitions
        self._load = load
        self._in_sight = in_sight
        self._skips: tuple[Skip, ...] = ()
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
    def firsts(self) -> list[int]:
        """The earliest offset of each partition that is still stored."""
        ends = self.ends  # first: a segment is there before its rows count
        segments = self._segments
        return list(segments[0].starts) if segments else ends

    @property
    def starts(self) -> list[int]:
        """The earliest offset of each partition that is still stored, or was skipped just before
        what is stored: readers pass over that."""
        found = self.firsts
        for each in sorted(self._skips, key=lambda skip: skip.start, reverse=True):
            if each.start < found[each.partition] <= each.end:
                found[each.partition] = each.start
        return found

    def publish(self, ends: Sequence[int]) -> None:
        """These ends are durable: reads may go up to them."""
        self._ends = tuple(ends)

    @property
    def skips(self) -> tuple[Skip, ...]:
        return self._skips

    def skip(self, skips: Sequence[Skip]) -> None:
        """These, and no others, are skipped."""
        self._skips = tuple(skips)

    def add(self, segment: Segment) -> None:
        self._segments = (*self._segments, segment)

    def remove(self, segment: Segment) -> None:
        self._segments = tuple(each for each in self._segments if each is not segment)
        with self._lock:
            self._recent.pop(segment.number, None)
        segment.forget()

    def touch(self, segment: Segment) -> None:
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
            DataLoss: RANGE_GONE for rows no longer stored, OFFSET_AHEAD beyond the durable end;
            SKIPPED when rows that were given up are reached.
            SpoolFailed: CORRUPT with segment, partition and offsets; what is before was yielded.
        """
        segments = self._checked(partition, start, end)
        return self._rows(segments, partition, start, end)

    def stretches(self, partition: int, start: int, end: int) -> list[Stretch]:
        """What became of ``[start, end)``, piece by piece. Damage that nobody gave up is stored.

        Raises:
            DataLoss: OFFSET_AHEAD.
            SpoolFailed: IO when the directory cannot be seen.
        """
        if end > self._ends[partition]:
            raise offset_ahead(self.directory, partition, end, self._ends[partition])
        given_up = skipped_in(self._skips, partition)
        gone = RangeSet([(start, end)] if start < end else [])
        for segment in self._segments:
            low, high = segment.starts[partition], segment.ends[partition]
            if low < high and gone.overlaps(low, high) and self._is_there(segment):
                gone.remove(low, high)
        found = [Stretch(low, high, "skipped") for low, high in given_up.within(start, end)]
        for low, high in given_up.missing(start, end):
            found += [Stretch(*hole, "gone") for hole in gone.within(low, high)]
            found += [Stretch(*rows, "stored") for rows in gone.missing(low, high)]
        return sorted(found)

    def unreadable(self, partition: int, start: int, end: int) -> RangeSet:
        """The rows of ``[start, end)`` that no record holds which can be read. Reads all of them.

        Raises:
            SpoolFailed: IO when the directory cannot be seen.
        """
        found = RangeSet([(start, end)] if start < end else [])
        for segment in self._segments:
            low, high = segment.starts[partition], segment.ends[partition]
            if low < high and found.overlaps(low, high) and self._is_there(segment):
                for span in self._spans_of(segment, partition, max(start, low), min(end, high)):
                    if rows := self._readable(segment, partition, span):
                        found.remove(span.first, span.first + rows)
        return found

    def spans(
        self, partition: int, start: int, end: int, *, skipped_too: bool = False
    ) -> Iterator[tuple[Segment, int, int, list[Span]]]:
        """Each segment with rows of ``[start, end)``: those rows ``[at, stop)``, and the records
        that may hold them. No payload is touched. The range is checked at once, as by ``read``.

        Raises:
            DataLoss: RANGE_GONE, OFFSET_AHEAD, SKIPPED.
            SpoolFailed: CORRUPT when a segment cannot be read.
        """
        segments = self._checked(partition, start, end)
        given_up = skipped_in(self._skips, partition)
        if not skipped_too and (found := given_up.within(start, end)):
            raise skipped(partition, *found[0])
        return (
            (segment, at, stop, self._spans_of(segment, partition, at, stop))
            for segment, at, stop in self._parts(segments, partition, start, end, given_up)
        )

    def bisect(self, partition: int, is_before: Callable[[pa.RecordBatch], bool]) -> int:
        """The first durable offset whose row is not before; the end when all are. ``is_before``
        says it of all rows of a batch together.

        Raises:
            DataLoss: RANGE_GONE when a file is not there any more.
            SpoolFailed: CORRUPT when a record on the way is damaged.
        """
        end = self._ends[partition]
        given_up = skipped_in(self._skips, partition)

        def rows(segment: Segment, span: Span) -> pa.RecordBatch:
            return self._record(segment, partition, span.first, span.position)

        def readable(segment: Segment, start: int) -> list[Span]:
            stop = min(segment.ends[partition], end)
            found = [
                span
                for span in self._spans_of(segment, partition, start, stop)
                if not given_up.overlaps(span.first, span.first + 1)
            ]
            if not found and start > segment.starts[partition]:
                return readable(segment, segment.starts[partition])
            if not found:
                low, high = self._damage_at(segment, partition, start)
                raise corrupt(segment.path, partition, low, high, _NO_RECORD)
            return found

        def reaches(segment: Segment) -> bool:
            last = min(segment.ends[partition], end) - 1
            return not is_before(rows(segment, readable(segment, last)[-1]))

        segments = [
            segment
            for segment in self._segments
            if segment.starts[partition] < min(segment.ends[partition], end)
            and not given_up.covers(segment.starts[partition], segment.ends[partition])
        ]
        found = bisect_left(segments, True, key=reaches)
        if found == len(segments):
            return end
        segment = segments[found]
        spans = readable(segment, segment.starts[partition])
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
            raise offset_ahead(self.directory, partition, end, self._ends[partition])
        low = min(self.starts[partition], end)
        if start < low:
            raise range_gone(self.directory, partition, start, low)
        return segments

    def _parts(
        self,
        segments: Sequence[Segment],
        partition: int,
        start: int,
        end: int,
        given_up: RangeSet,
    ) -> Iterator[tuple[Segment, int, int]]:
        """The segments that hold ``[start, end)``, with the part of it that each holds; between
        them may be what was given up."""
        at = start
        for segment in segments:
            if at >= end:
                return
            if segment.ends[partition] <= at or segment.starts[partition] >= end:
                continue
            low, stop = max(at, segment.starts[partition]), min(end, segment.ends[partition])
            self._check_passed(partition, at, low, given_up)
            yield segment, low, stop
            at = stop
        self._check_passed(partition, at, end, given_up)

    def _check_passed(self, partition: int, start: int, end: int, given_up: RangeSet) -> None:
        """Nothing is stored of ``[start, end)``.

        Raises:
            DataLoss: RANGE_GONE when any of it was not given up.
        """
        if missing := given_up.missing(start, end):
            raise range_gone(self.directory, partition, *missing[0])

    def _rows(
        self, segments: Sequence[Segment], partition: int, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        given_up = skipped_in(self._skips, partition).within(start, end)
        stop = given_up[0][0] if given_up else end
        for segment, at, until in self._parts(segments, partition, start, stop, RangeSet()):
            yield from self._rows_of(segment, partition, at, until)
        if given_up:
            raise skipped(partition, *given_up[0])

    def _rows_of(
        self, segment: Segment, partition: int, start: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        at = start
        for first, position in self._find(segment, partition, start, end):
            if first > at:
                break
            batch = self._record(segment, partition, first, position)
            stop = min(first + batch.num_rows, end)
            if stop <= at:
                continue
            yield batch.slice(at - first, stop - at)
            at = stop
        if at < end:
            low, high = self._damage_at(segment, partition, at)
            raise corrupt(segment.path, partition, low, high, _NO_RECORD)

    def _record(
        self, segment: Segment, partition: int, first: int, position: int
    ) -> pa.RecordBatch:
        """All rows of the record at a position.

        Raises:
            DataLoss: RANGE_GONE when the file is not there any more.
            SpoolFailed: CORRUPT with all rows around it that cannot be read; IO.
        """
        try:
            return self._verified(segment, partition, first, position)
        except Damaged as error:
            low, high = self._damage_at(segment, partition, first)
            raise corrupt(segment.path, partition, low, high, str(error)) from None

    def _verified(
        self, segment: Segment, partition: int, first: int, position: int
    ) -> pa.RecordBatch:
        """
        Raises:
            Damaged: the record is not as it was written.
            DataLoss, SpoolFailed: the file is gone, or the disk says nothing of it.
        """
        try:
            record, batch = read_record(segment, self.codec, partition, position)
        except OSError as error:
            raise self._failed(error, segment, partition) from None
        except pa.ArrowException as error:
            raise Damaged(str(error)) from None
        if record.first != first:
            raise Damaged("the index names another record")
        return batch

    def _readable(self, segment: Segment, partition: int, span: Span) -> int:
        """How many rows the record of a span has; 0 when it is damaged."""
        try:
            return int(self._verified(segment, partition, span.first, span.position).num_rows)
        except Damaged:
            return 0

    def _damage_at(self, segment: Segment, partition: int, at: int) -> tuple[int, int]:
        """The rows of a segment around ``at`` up to the next ones that can be read."""
        low, high = segment.starts[partition], segment.ends[partition]
        spans = self._spans_of(segment, partition, low, high)
        before = bisect_right(spans, at, key=lambda span: span.first)
        for span in spans[before:]:
            if self._readable(segment, partition, span):
                high = span.first
                break
        for span in reversed(spans[:before]):
            if rows := self._readable(segment, partition, span):
                low = span.first + rows
                break
        return low, high

    def _failed(self, error: OSError, segment: Segment, partition: int) -> Exception:
        """A file that is not found in a directory in sight is gone; one that is shorter than its
        index says is damaged; of all else nothing is known."""
        if isinstance(error, FileNotFoundError):
            return self.not_found(segment, partition)
        if error.errno is None:
            return Damaged(str(error))
        return failed_by(segment.path.parent, error)

    def not_found(self, segment: Segment, partition: int) -> AqueductError:
        """The file of a segment is not there: its rows are gone if its directory can be seen."""
        if self._in_sight():
            rows = segment.starts[partition], segment.ends[partition]
            return range_gone(self.directory, partition, *rows)
        return out_of_sight(segment.path.parent)

    def _is_there(self, segment: Segment) -> bool:
        """
        Raises:
            SpoolFailed: IO when the directory cannot be seen.
        """
        if segment.path.exists():
            return True
        if self._in_sight():
            return False
        raise out_of_sight(segment.path.parent)

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
        except OSError as error:
            failed = self._failed(error, segment, partition)
            if isinstance(failed, Damaged):
                failed = corrupt(segment.path, partition, start, end, str(error))
            raise failed from None
        segment.keep(index)
        return index

    def _used(self, segment: Segment) -> None:
        if segment.sealed is not None:
            self.touch(segment)
