"""From a directory as it was left, however it was left, to a log that can be carried on."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct_core.errors import SpoolFailed
from aqueduct_core.spool.catalog import Catalog, Known
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.identity import Identity
from aqueduct_core.spool.marks import Marks
from aqueduct_core.spool.retention import raised
from aqueduct_core.spool.scan import Scan, scan
from aqueduct_core.spool.segment import Index, Segment, segment_numbers, segment_path
from aqueduct_core.spool.tail import Tail, find_tail

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """Everything that is stored and durable. All ``segments`` are closed; ``scanned`` are those read anew."""

    segments: list[Segment]
    scanned: list[Segment]
    ends: list[int]
    group: int
    next_segment: int
    cursors: dict[str, list[int]]


def recover(
    directory: Path, identity: Identity, catalog: Catalog, marks: Marks, disk: Disk, now: float
) -> Recovered:
    """Read what the catalog does not know, cut what a crash tore off, and fill ``marks``.

    Raises:
        SpoolFailed: CORRUPT when the newest segment is missing, or one belongs to another spool.
        OSError: the disk failed.
    """
    known = catalog.known()
    entered = catalog.segments(lambda number: segment_path(directory, number))
    numbers = segment_numbers(directory)
    if known.segment and known.segment not in numbers and known.segment not in entered:
        raise SpoolFailed(
            "CORRUPT",
            f"{segment_path(directory, known.segment)}, the newest segment, is missing,"
            " so it is not known which offsets were given out",
            "Bring the file back, or start anew with an empty directory and a new checkpoint",
        )
    trusted = {
        number
        for number in numbers[:-1]
        if number in entered
        and segment_path(directory, number).stat().st_size == entered[number].size
    }
    scans = {
        number: _scan(directory, number, identity) for number in numbers if number not in trusted
    }
    durable = max(
        [known.group, *(record.durable for each in scans.values() for record in each.records)]
    )
    tail = find_tail(
        list(scans.values()), durable, bool(scans) and known.segment < next(iter(scans))
    )
    next_segment = max([known.segment, *numbers, *entered], default=0) + 1
    kept = _cut(directory, numbers, scans, tail, disk)
    segments = [
        entered[number] if number in trusted else _segment(directory, scans[number], identity)
        for number in kept
    ]
    ends = _fit(segments, scans, entered, known, identity.partitions)
    scanned = [segment for segment in segments if segment.number not in trusted]
    for segment in scanned:
        before = entered.get(segment.number)
        segment.sealed = before.sealed if before else now
        _report(segment, scans[segment.number])
    for number in sorted(entered.keys() - set(kept)):
        log.warning("segment %d of %s is gone; its rows cannot be read", number, directory)
        catalog.drop_segment(number)
    cursors = _replay(directory, kept, scans, known, identity, marks)
    if known.ends:
        cursors = catalog.cursors()
    return Recovered(segments, scanned, ends, tail.group, next_segment, cursors)


def load_index(segment: Segment, catalog: Catalog, partitions: int) -> Index:
    """The index of a closed segment: from the catalog, or from the segment when that is damaged."""
    packed = catalog.positions(segment.number)
    index = Index.unpack(packed, partitions) if packed else None
    if index is None:
        index = Index(partitions)
        index.add_records(scan(segment.path, segment.number).records)
    return index


def _scan(directory: Path, number: int, identity: Identity) -> Scan:
    path = segment_path(directory, number)
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        # Only what is on the disk counts. After a failed write-back the cache may show pages that never
        # got there: sync, then drop the cached pages, so that the scan reads the disk.
        os.fdatasync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    found = scan(path, number)
    for record in found.records:
        if record.kind == "head" and record.fields["id"] != identity.id:
            raise SpoolFailed(
                "CORRUPT",
                f"{path} belongs to the spool {record.fields['id']}, this one is {identity.id}",
                "Move the file away, and bring back the segment of that name if there is one",
            )
    return found


def _cut(
    directory: Path, numbers: Sequence[int], scans: dict[int, Scan], tail: Tail, disk: Disk
) -> list[int]:
    """Remove what comes after the tail, durably; the numbers of the segments that are left."""
    kept = list(numbers)
    if tail.cut is not None:
        last, position = tail.cut
        for number in [number for number in kept if number > last]:
            disk.unlink(segment_path(directory, number))
            kept.remove(number)
            del scans[number]
        if position < scans[last].size:
            log.warning(
                "%s: %d bytes at its end were never reported as stored and are cut off",
                segment_path(directory, last),
                scans[last].size - position,
            )
            fd = os.open(segment_path(directory, last), os.O_RDWR | os.O_CLOEXEC)
            try:
                disk.truncate(fd, position)
                disk.sync(fd)
            finally:
                os.close(fd)
            scans[last] = _shortened(scans[last], position)
    # a segment that holds no group says nothing that the one before does not say
    while kept and not scans.get(kept[-1], _SOME).rows and not scans[kept[-1]].damage:
        head = scans[kept[-1]].head
        if head is not None and head.group and len(kept) == 1:
            break
        disk.unlink(segment_path(directory, kept.pop()))
    disk.sync_directory(directory)
    return kept


def _shortened(whole: Scan, size: int) -> Scan:
    return Scan(
        whole.number,
        size,
        [record for record in whole.records if record.end <= size],
        [stretch for stretch in whole.damage if stretch[0] < size],
    )


def _segment(directory: Path, found: Scan, identity: Identity) -> Segment:
    nowhere = [-1] * identity.partitions
    head = found.head
    starts = list(head.fields["ends"]) if head else nowhere
    segment = Segment(segment_path(directory, found.number), found.number, starts, list(starts))
    segment.add(((r.partition, r.first, r.stop, r.at) for r in found.rows), found.size)
    return segment


def _fit(
    segments: Sequence[Segment],
    scans: dict[int, Scan],
    entered: dict[int, Segment],
    known: Known,
    partitions: int,
) -> list[int]:
    """Complete starts and ends that damage hides, from the neighbours and the catalog; the ends of all."""
    ends = list(known.ends) or [0] * partitions
    for segment in reversed(segments):
        found = scans.get(segment.number)
        if found is None:
            continue
        before = entered.get(segment.number)
        newer = [s for s in segments if s.number == segment.number + 1]
        for p in range(partitions):
            first = next((r.first for r in found.rows if r.partition == p), -1)
            after = newer[0].starts[p] if newer else (before.ends[p] if before else -1)
            segment.ends[p] = max(segment.ends[p], after, before.ends[p] if before else -1)
            if segment.starts[p] < 0:
                known_start = before.starts[p] if before else -1
                segment.starts[p] = known_start if known_start >= 0 else first
            if segment.starts[p] < 0:
                segment.starts[p] = max(segment.ends[p], 0)
            segment.ends[p] = max(segment.ends[p], segment.starts[p])
    # a damaged head hides where its segment starts: no gap is assumed between neighbours
    for older, newer_one in zip(segments, segments[1:], strict=False):
        found = scans.get(newer_one.number)
        if newer_one.number == older.number + 1 and found is not None and found.head is None:
            newer_one.starts[:] = older.ends
    if segments:
        last = segments[-1]
        if known.segment <= last.number:
            last.ends[:] = map(max, last.ends, ends)
        ends = [max(pair) for pair in zip(last.ends, ends, strict=True)]
    return ends


def _replay(
    directory: Path,
    kept: Sequence[int],
    scans: dict[int, Scan],
    known: Known,
    identity: Identity,
    marks: Marks,
) -> dict[str, list[int]]:
    """Fill ``marks`` from the newest readable state and what came after it; the cursors of that state."""
    replayed: list[Scan] = []
    state: dict[str, Any] | None = None
    for number in reversed(kept):
        if known.state is not None and known.state_after >= number:
            state = known.state
            break
        found = scans.get(number) or _scan(directory, number, identity)
        replayed.insert(0, found)
        if found.head is not None:
            state = found.head.fields
            break
    if state is None and kept:
        state = known.state
        log.warning("%s: no segment has a readable head; repeats may be stored again", directory)
    if state is not None:
        marks.load(state["marks"])
    for found in replayed:
        for record in found.rows:
            marks.add(record.marks)
    cursors = state["cursors"] if state is not None else {}
    return {name: raised(None, ends) for name, ends in cursors.items()}


def _report(segment: Segment, found: Scan) -> None:
    for start, stop in found.damage:
        log.warning("%s: bytes %d to %d are damaged", segment.path, start, stop)


_SOME = Scan(0, 0, [], [(0, 0)])
