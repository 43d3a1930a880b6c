"""What anyone may ask of the rows of a spool, its owner and those who look into it alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from aqueduct_core.errors import InvalidOption
from aqueduct_core.spool.format.segment import Segment
from aqueduct_core.spool.identity import SpoolIdentity
from aqueduct_core.spool.locations import Location, locations_of, measured
from aqueduct_core.spool.losses import offset_ahead
from aqueduct_core.spool.segments import Segments
from aqueduct_core.spool.skips import MAX_OFFSET, Skip, Stretch, check_unreadable, skipped_in


class Readable:
    """Rows by range, what they take, and where they lie. Any thread may call."""

    _directory: Path
    _identity: SpoolIdentity
    _segments: Segments

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def id(self) -> str:
        """A UUID that never changes."""
        return self._identity.id

    @property
    def epoch(self) -> int:
        """Raised at each opening by an owner: the higher one is the present owner, or the last."""
        return self._identity.epoch

    @property
    def partitions(self) -> int:
        return self._identity.partitions

    @property
    def schema(self) -> pa.Schema:
        return self._segments.codec.schema

    def ends(self) -> list[int]:
        """The durable end of each partition, exclusive."""
        return self._segments.ends

    def starts(self) -> list[int]:
        """The earliest offset of each partition that is still stored."""
        return self._segments.starts

    def read(self, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """Exactly the rows ``[start, end)``, in order, checksums verified. The buffers lie in the
        mapped segment files and stay valid after truncation.

        Raises:
            DataLoss: RANGE_GONE or OFFSET_AHEAD.
            SpoolFailed: CORRUPT, with segment, partition and offset, when the damaged record is
            reached.
        """
        return self._segments.read(partition, start, end)

    def sizes(self, partition: int, start: int, end: int, step: int) -> list[tuple[int, int]]:
        """How many stored bytes the rows ``[start, end)`` take: ascending (offset, bytes from
        ``start``) about ``step`` bytes apart, at last (``end``, total).

        From the index, without touching rows. Rows of one record count alike, skipped ones as well.

        Raises:
            DataLoss: RANGE_GONE or OFFSET_AHEAD.
            SpoolFailed: CORRUPT when a segment cannot be read.
        """
        if step < 1:
            raise ValueError(f"step {step}")
        parts = self._segments.spans(partition, start, end, skipped_too=True)
        spans = (span for _, _, _, each in parts for span in each)
        return measured(spans, start, end, step)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Oldest first."""
        return self._segments.segments

    def bytes_from(self, partition: int, start: int) -> int:
        """How many stored bytes the rows of a partition from ``start`` on take, about: as if all
        rows of a segment took the same. Touches no index, however much is stored."""
        found = 0.0
        for segment in self.segments:
            ends = list(segment.ends)  # the owner's thread raises them meanwhile
            rows = sum(ends) - sum(segment.starts)
            behind = ends[partition] - max(start, segment.starts[partition])
            if rows > 0 and behind > 0:
                found += segment.size * min(1.0, behind / rows)
        return int(found)

    def locations(self, partition: int, start: int, end: int) -> list[Location]:
        """Where the rows ``[start, end)`` lie, for `read_locations` in another process.

        The locations follow each other without a gap. Their files may be unlinked once every cursor
        has passed them.

        Raises:
            DataLoss: RANGE_GONE or OFFSET_AHEAD.
            SpoolFailed: CORRUPT when no record of a segment can be read.
        """
        found: list[Location] = []
        for segment, at, stop, spans in self._segments.spans(partition, start, end):
            try:
                found += locations_of(segment, partition, at, stop, spans)
            except FileNotFoundError:
                raise self._segments.not_found(segment, partition) from None
        return found

    @property
    def skips(self) -> tuple[Skip, ...]:
        """Rows that were given up by hand."""
        return self._segments.skips

    def stretches(self, partition: int, start: int, end: int) -> list[Stretch]:
        """What became of the rows ``[start, end)``, piece by piece: stored, skipped or gone.
        Damage that nobody gave up counts as stored.

        Raises:
            DataLoss: OFFSET_AHEAD.
            SpoolFailed: IO when the directory cannot be seen.
        """
        return self._segments.stretches(partition, start, end)

    def check_unreadable(self, partition: int, start: int, end: int) -> bool:
        """Whether something of ``[start, end)`` is left to be skipped. Reads all of it. What is
        below the first that is stored, or behind the end, cannot be read.

        Raises:
            DataLoss: OFFSET_AHEAD when it begins behind the end.
            InvalidOption: CONFLICT when any of it can be read.
            SpoolFailed: IO.
        """
        if not 0 <= partition < self.partitions or not 0 <= start < end <= MAX_OFFSET:
            raise InvalidOption(
                "BAD_VALUE",
                f"offsets {start} to {end} of partition {partition} are no rows of a spool with "
                f"{self.partitions} partitions",
                f"Name a partition, and the end behind the first offset, up to {MAX_OFFSET}",
            )
        stop = self.ends()[partition]
        if start > stop:
            raise offset_ahead(self._directory, partition, end, stop)
        given_up = skipped_in(self.skips, partition)
        unreadable = self._segments.unreadable(partition, start, end)
        for low, high in given_up.within(start, end):
            unreadable.add(low, high)
        check_unreadable(partition, start, end, unreadable)
        return not given_up.covers(start, end)

    def bisect(self, partition: int, is_before: Callable[[pa.RecordBatch], bool]) -> int:
        """The first offset whose row is not before what is sought; the durable end when all are.

        Reads O(log n) records.

        Args:
            is_before: whether all rows of a batch, which has some, are before it. Once it is false
                it is false for all rows that follow.

        Raises:
            DataLoss: RANGE_GONE when a segment goes meanwhile: look again.
            SpoolFailed: CORRUPT when a record on the way is damaged.
        """
        return self._segments.bisect(partition, is_before)
