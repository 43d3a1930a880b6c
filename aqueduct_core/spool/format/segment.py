"""One segment file: where its records are, and reading them back."""

from __future__ import annotations

import mmap
import os
import threading
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.spool.format.record import Codec, Damaged, Record, verify

_PREFIX, _SUFFIX = "segment-", ".arrows"


def segment_path(directory: Path, number: int) -> Path:
    return directory / f"{_PREFIX}{number:012d}{_SUFFIX}"


def segment_numbers(directory: Path) -> list[int]:
    """The segments of a directory, oldest first."""
    names = (path.name for path in directory.iterdir())
    numbers = (
        name[len(_PREFIX) : -len(_SUFFIX)]
        for name in names
        if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
    )
    return sorted(int(number) for number in numbers if number.isdigit())


def segment_number(name: str) -> int:
    """The number in the name of a segment file."""
    return int(name[len(_PREFIX) : -len(_SUFFIX)])


class Span(NamedTuple):
    """A record with rows ``[first, stop)`` that fills ``[position, end)`` of its file.

    From an index: where records between two are damaged, ``stop`` and ``end`` reach to the next.
    """

    first: int
    stop: int
    position: int
    end: int


class Index:
    """Where the rows of a segment are: per partition the first offset and position of each record.

    16 bytes a record. The owner's thread adds; it holds the segment's lock while others may read.
    """

    def __init__(self, partitions: int) -> None:
        self.firsts = [array("q") for _ in range(partitions)]
        self.positions = [array("q") for _ in range(partitions)]

    def add(self, partition: int, first: int, position: int) -> None:
        self.firsts[partition].append(first)
        self.positions[partition].append(position)

    def add_records(self, records: Iterable[Record]) -> None:
        for record in records:
            if record.state is None and record.stop > record.first:
                self.add(record.partition, record.first, record.at)

    def find(self, partition: int, start: int, end: int) -> list[tuple[int, int]]:
        """(first offset, position) of the records that may hold rows of ``[start, end)``."""
        firsts = self.firsts[partition]
        low = max(0, bisect_right(firsts, start) - 1)
        high = bisect_left(firsts, end)
        return list(zip(firsts[low:high], self.positions[partition][low:high], strict=True))

    def spans(self, partition: int, start: int, end: int, last: int, size: int) -> list[Span]:
        """The records that may hold rows of ``[start, end)``.

        Args:
            last: the end of the partition in this segment.
            size: bytes of the segment.
        """
        firsts, positions = self.firsts[partition], self.positions[partition]
        low = max(0, bisect_right(firsts, start) - 1)
        high = bisect_left(firsts, end)
        ends = (*firsts[low + 1 : high + 1], last)
        return [
            Span(firsts[i], ends[i - low], positions[i], self._next(positions[i], size))
            for i in range(low, high)
        ]

    def _next(self, position: int, size: int) -> int:
        """Where the record after that of a position begins, of whatever partition."""
        after = ((each, bisect_right(each, position)) for each in self.positions)
        return min((each[i] for each, i in after if i < len(each)), default=size)

    def pack(self) -> bytes:
        """For the catalog: a checksum, then for each partition count, firsts, positions."""
        body = b"".join(
            array("q", [len(firsts)]).tobytes() + firsts.tobytes() + positions.tobytes()
            for firsts, positions in zip(self.firsts, self.positions, strict=True)
        )
        return zlib.crc32(body).to_bytes(8, "little") + body

    @classmethod
    def unpack(cls, data: bytes, partitions: int) -> Index | None:
        """The index of ``pack``, perhaps of fewer partitions; None when it is damaged."""
        if len(data) < 8 or len(data) % 8:
            return None
        if zlib.crc32(data[8:]) != int.from_bytes(data[:8], "little"):
            return None
        numbers = array("q", data[8:])
        index = cls(partitions)
        at = 0
        for partition in range(partitions):
            if at >= len(numbers) and partition:
                break  # from before the other partitions were added
            if at >= len(numbers):
                return None  # eight zeros are a right checksum of nothing
            count = numbers[at]
            index.firsts[partition] = numbers[at + 1 : at + 1 + count]
            index.positions[partition] = numbers[at + 1 + count : at + 1 + 2 * count]
            at += 1 + 2 * count
        return index if at == len(numbers) else None


class Segment:
    """What is known of one segment. Any thread may read; only the owner's thread changes it.

    Holds ``starts`` and ``ends``: the offsets per partition before and after it (ends exclusive),
    and ``size`` in bytes. ``stamp`` is that of its records, empty where format 1 gave none.
    ``sealed`` is the time in seconds since 1970 when it was closed, None before.
    """

    def __init__(
        self, path: Path, number: int, starts: list[int], ends: list[int], stamp: str
    ) -> None:
        self.path = path
        self.number = number
        self.stamp = stamp
        self.starts = starts
        self.ends = ends
        self.size = 0
        self.sealed: float | None = None
        self._index: Index | None = None
        self._lock = threading.Lock()
        self._map: mmap.mmap | None = None

    def __repr__(self) -> str:
        return f"<Segment {self.number} {self.starts}..{self.ends} {self.size} bytes>"

    @property
    def index(self) -> Index | None:
        """None when it is not in memory."""
        return self._index

    def keep(self, index: Index) -> None:
        self._index = index

    def forget(self) -> None:
        """Drop what can be had again; readers with slices keep theirs."""
        with self._lock:
            self._index = None
            self._map = None

    def add(self, entries: Iterable[tuple[int, int, int, int]], size: int) -> None:
        """The owner wrote (partition, first, stop, position); the file now has ``size`` bytes."""
        with self._lock:
            if self._index is None:
                self._index = Index(len(self.ends))
            for partition, first, stop, position in entries:
                if stop > first:
                    self._index.add(partition, first, position)
                    self.ends[partition] = stop
            self.size = size

    def find(self, partition: int, start: int, end: int) -> list[tuple[int, int]] | None:
        """As of the index; None when it is not in memory."""
        with self._lock:
            return None if self._index is None else self._index.find(partition, start, end)

    def spans(self, partition: int, start: int, end: int) -> list[Span] | None:
        """As of the index; None when it is not in memory."""
        with self._lock:
            if self._index is None:
                return None
            return self._index.spans(partition, start, end, self.ends[partition], self.size)

    def data(self, end: int) -> mmap.mmap:
        """The file as memory, at least up to position ``end`` if it is that long.

        A slice keeps the mapping alive, also after the segment was unlinked.

        Raises:
            OSError: the file is gone or cannot be mapped.
        """
        with self._lock:
            if self._map is None or len(self._map) < end:
                self._map = map_file(self.path)
            return self._map


def map_file(path: Path, size: int = 0) -> mmap.mmap:
    """A file, or its first ``size`` bytes, as read-only memory.

    Raises:
        OSError: it is missing, empty or shorter.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return mmap.mmap(fd, size, access=mmap.ACCESS_READ)
    except ValueError as error:
        raise OSError(str(error)) from None
    finally:
        os.close(fd)


def read_record(
    segment: Segment, codec: Codec, partition: int, position: int
) -> tuple[Record, pa.RecordBatch]:
    """The record at a position with its rows, which lie in the mapped file.

    Raises:
        Damaged: its checksum does not match, or it holds another partition.
        OSError: the file is gone.
    """
    data = segment.data(segment.size)
    record, batch = record_at(data, codec, position, segment.number, segment.stamp)
    if batch is None or record.partition != partition:
        raise Damaged("the record holds another partition")
    return record, batch


def record_at(
    data: mmap.mmap, codec: Codec, position: int, number: int, stamp: str
) -> tuple[Record, pa.RecordBatch | None]:
    """The record at a position of a mapped segment, with its rows; None for those of a head.

    Raises:
        Damaged: its checksum does not match, or the file is not the one of this stamp.
    """
    record = verify(memoryview(data), position, number)
    if stamp and record.stamp != stamp:
        raise Damaged("the file was swapped for another segment of that number")
    if record.state is not None:
        return record, None
    return record, codec.batch(pa.py_buffer(data)[record.at : record.end])
