"""Where rows lie in a spool on object storage, for whoever reads: its owner, a planner, a task.

What follows from the floor of the manifest without a gap is durable, whether its owner has reported
it or not: every later owner finds it. So nobody has to be asked how far the spool goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.format.record import Codec, Damaged, verify
from aqueduct_core.spool.format.segment import Span
from aqueduct_core.spool.losses import offset_ahead, range_gone
from aqueduct_core.spool.objects.compaction import page_entries
from aqueduct_core.spool.objects.group import LogObject
from aqueduct_core.spool.objects.manifest import Manifest, SegmentEntry
from aqueduct_core.spool.objects.names import ObjectNames
from aqueduct_core.spool.objects.steps import get
from aqueduct_core.spool.objects.store import Steps
from aqueduct_core.spool.objects.takeover import LogEnd, read_manifest

LARGEST_GET = 8 << 20
"""Bytes that are asked for at once where several records lie side by side: several such requests in
parallel are faster than one."""

_KEPT = 256
"""Indexes and pages that stay in memory."""


class ObjectLocation(NamedTuple):
    """Rows ``[first, stop)`` of a partition, in ``length`` bytes from ``position`` of an object.

    The bytes are whole records, written under a ``number`` by a ``life``; the first rows may be
    before ``first``, the last ones after ``stop``.
    """

    partition: int
    key: str
    position: int
    length: int
    first: int
    stop: int
    number: int
    life: str


class StoredRecord(NamedTuple):
    """A record of one partition: where it lies, and its rows (`Span`)."""

    key: str
    number: int
    life: str
    span: Span


@dataclass(frozen=True, slots=True)
class LogView:
    """A spool at one moment: what is in segments stands in the manifest, ``objects`` follow."""

    manifest: Manifest
    objects: tuple[LogObject, ...]
    ends: tuple[int, ...]

    @property
    def starts(self) -> list[int]:
        starts = self.manifest.starts
        return [*starts, *[0] * (len(self.ends) - len(starts))]


def look(names: ObjectNames) -> Steps[LogView]:
    """A spool as it is, without owning it.

    Raises:
        SpoolFailed: IO when there is none; CORRUPT, VERSION, FORBIDDEN.
    """
    manifest, tag = yield from read_manifest(names)
    while manifest is not None:
        log = LogEnd(names, manifest)
        yield from log.advance()
        latest, latest_tag = yield from read_manifest(names)
        if latest is not None and (tag == latest_tag or latest.floor == manifest.floor):
            return LogView(latest, tuple(log.objects), tuple(log.ends))
        # what was there has become a segment meanwhile
        manifest, tag = latest, latest_tag
    raise SpoolFailed("IO", f"there is no spool at {names.prefix!r}", "Check its address")


class ObjectIndex:
    """Finds records in views of one spool. Keeps what it read of objects that never change; any
    thread may use it."""

    def __init__(self, names: ObjectNames, place: str) -> None:
        self._names = names
        self._place = place
        self._entries: dict[str, tuple[SegmentEntry, ...]] = {}
        self._rows: dict[str, dict[int, list[Span]]] = {}

    def locate(
        self, view: LogView, partition: int, start: int, end: int
    ) -> Steps[list[ObjectLocation]]:
        """Where the rows ``[start, end)`` lie; the locations follow each other without a gap.

        Raises:
            DataLoss: RANGE_GONE, OFFSET_AHEAD.
            SpoolFailed: CORRUPT, FORBIDDEN.
        """
        found: list[ObjectLocation] = []
        for key, number, life, span in (yield from self.records(view, partition, start, end)):
            first, stop = max(start, span.first), min(end, span.stop)
            last = found[-1] if found else None
            length = span.end - span.position
            if (
                last is not None
                and last.key == key
                and last.position + last.length == span.position
                and last.length + length <= LARGEST_GET
            ):
                found[-1] = last._replace(length=last.length + length, stop=stop)
                continue
            found.append(
                ObjectLocation(partition, key, span.position, length, first, stop, number, life)
            )
        return found

    def records(
        self, view: LogView, partition: int, start: int, end: int
    ) -> Steps[list[StoredRecord]]:
        """The records with the rows ``[start, end)``, in order.

        Raises:
            DataLoss: RANGE_GONE, OFFSET_AHEAD.
            SpoolFailed: CORRUPT, FORBIDDEN.
        """
        if not 0 <= partition < len(view.ends):
            raise ValueError(f"partition {partition} of {len(view.ends)}")
        if not 0 <= start <= end:
            raise ValueError(f"range {start} to {end}")
        if end > view.ends[partition]:
            raise offset_ahead(self._place, partition, end, view.ends[partition])
        if start < min(view.starts[partition], end):
            raise range_gone(self._place, partition, start, view.starts[partition])
        found: list[StoredRecord] = []
        for entry in (yield from self.entries(view.manifest, partition, start, end)):
            key = self._names.segment(entry.first, entry.last, entry.attempt)
            for span in (yield from self._index(key, entry, view)).get(partition, ()):
                found.append(StoredRecord(key, entry.first, entry.life, span))
        for each in view.objects:
            for record in each.records:
                if record.partition == partition:
                    span = Span(record.first, record.stop, record.at, record.end)
                    key = self._names.group(each.sequence)
                    found.append(StoredRecord(key, each.sequence, each.life, span))
        return [each for each in found if each.span.first < end and each.span.stop > start]

    def entries(
        self, manifest: Manifest, partition: int, start: int, end: int
    ) -> Steps[list[SegmentEntry]]:
        """Those of the segments with any of the rows."""
        found: list[SegmentEntry] = []
        for page in manifest.pages:
            if not _has(page.starts, page.ends, partition, start, end):
                continue
            key = self._names.page(page.first, page.last, page.attempt)
            if key not in self._entries:
                _make_room(self._entries)
                self._entries[key] = yield from page_entries(self._names, page)
            found += (each for each in self._entries[key] if each.last > manifest.trimmed)
        found += manifest.segments
        return [each for each in found if _has(each.starts, each.ends, partition, start, end)]

    def _index(self, key: str, entry: SegmentEntry, view: LogView) -> Steps[dict[int, list[Span]]]:
        if key in self._rows:
            return self._rows[key]
        found = yield from get(key, entry.index_at, entry.state_at)
        if found is None:
            raise range_gone(self._place, 0, entry.starts[0], entry.ends[0])
        try:
            record = verify(memoryview(found.data), 0, entry.first, entry.index_at)
            assert record.state is not None
            rows: dict[int, list[Span]] = {}
            for partition, *span in record.state["index"]:
                rows.setdefault(partition, []).append(Span(*span))
        except (Damaged, KeyError, TypeError, json.JSONDecodeError) as error:
            raise SpoolFailed("CORRUPT", f"{key}: {error}", "Bring the object back") from None
        _make_room(self._rows)
        self._rows[key] = rows
        return rows


def rows_at(location: ObjectLocation, data: bytes, codec: Codec) -> Iterator[pa.RecordBatch]:
    """Exactly the rows of a location, whose bytes these are, checksums verified, without a copy.

    Raises:
        SpoolFailed: CORRUPT; what is before was yielded.
    """
    view, buffer = memoryview(data), pa.py_buffer(data)
    at, position = location.first, 0
    try:
        while at < location.stop:
            record = verify(view, position, location.number, location.position)
            if record.stamp != location.life or record.first > at:
                raise Damaged("another record is in its place")
            low, position = position, record.end - location.position
            if record.stop > at:
                batch = codec.batch(buffer[low:position])
                stop = min(record.stop, location.stop)
                yield batch.slice(at - record.first, stop - at)
                at = stop
    except (Damaged, pa.ArrowException) as error:
        raise SpoolFailed(
            "CORRUPT",
            f"{location.key}, partition {location.partition}, offsets {at} to {location.stop}"
            f" (exclusive): {error}",
            "Bring the object back from a copy",
        ) from None


def _has(starts: Sequence[int], ends: Sequence[int], partition: int, start: int, end: int) -> bool:
    if partition >= len(ends):  # from before it was added
        return False
    low, high = max(start, starts[partition]), min(end, ends[partition])
    return low < high


def _make_room(
    kept: dict[str, object]
    | dict[str, tuple[SegmentEntry, ...]]
    | dict[str, dict[int, list[Span]]],
) -> None:
    while len(kept) >= _KEPT:
        kept.pop(next(iter(kept), ""), None)
