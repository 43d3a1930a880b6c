"""What is in a directory that was taken over: recovered, cleared of what a crash tore off, and put
together for its owner."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct_core.spool.catalog import load_index
from aqueduct_core.spool.cursors import CursorStore
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.durable import Durable
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.scan import Scan, scan
from aqueduct_core.spool.format.segment import segment_path
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.format.settings import SpoolSettings
from aqueduct_core.spool.health import Health
from aqueduct_core.spool.losses import OffsetRange
from aqueduct_core.spool.ownership import Ownership
from aqueduct_core.spool.quota import Quota
from aqueduct_core.spool.recovery import Recovered, recover
from aqueduct_core.spool.segments import Segments
from aqueduct_core.spool.skips import load_skips
from aqueduct_core.spool.writer import Writer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OpenedParts:
    """The parts of a spool that is open, as they begin; ``lost`` are the rows of a segment that was
    given up."""

    health: Health
    sequences: Sequences
    segments: Segments
    cursors: CursorStore
    writer: Writer
    quota: Quota
    lost: tuple[OffsetRange, ...]


def opened(own: Ownership, settings: SpoolSettings, codec: Codec, lost: int | None) -> OpenedParts:
    """What the directory holds, ready to be carried on; ``lost`` as of `recover`.

    Raises:
        InvalidOption: CONFLICT as of `recover`.
        SpoolFailed: CORRUPT; LOCKED when another owner has come meanwhile.
        OSError: the disk failed.
    """
    directory, identity, catalog = own.directory, own.identity, own.catalog
    health = Health(directory)
    sequences = Sequences(settings)
    found, positions = _take_over(own, sequences, time.time(), lost)
    segments = Segments(
        directory,
        codec,
        identity.partitions,
        lambda segment: load_index(segment, catalog, identity.partitions),
        own.claim.held,
    )
    segments.skip(load_skips(directory, identity.id))
    for segment in found.segments:
        segments.add(segment)
    for segment in found.scanned:
        segments.touch(segment)
    segments.publish(found.ends)
    last = found.segments[-1] if found.segments else None
    newest, stamp = (last.number, last.stamp) if last else (0, "")
    cursors = CursorStore(catalog, health, segments, positions, newest, own.claim.note)

    def state(ends: Sequence[int]) -> dict[str, Any]:
        """What the head of a segment says of all before it."""
        return {
            "id": identity.id,
            "epoch": identity.epoch,
            "partitions": identity.partitions,
            "ends": list(ends),
            "cursors": cursors.positions,
            "marks": sequences.snapshot(),
            "sums": sequences.sums(),
        }

    writer = Writer(
        directory,
        codec,
        own.disk,
        own.sync,
        segment=found.next_segment,
        previous=(newest, stamp),
        group=found.group,
        ends=found.ends,
        roll_bytes=settings.roll_bytes,
        state=state,
    )
    quota = Quota(directory, settings, own.disk, health, segments, cursors, writer)
    if lost is not None and lost > newest:
        quota.continue_from(found.ends)
    rows = () if lost is None else tuple(found.rows_of(lost, positions.values()))
    return OpenedParts(health, sequences, segments, cursors, writer, quota, rows)


def _take_over(
    own: Ownership, sequences: Sequences, now: float, lost: int | None
) -> tuple[Recovered, dict[str, list[int | None]]]:
    """Recover, clear away, fill ``sequences`` and bring the catalog up to date; also gives the
    cursors. What is in the place of a ``lost`` segment is moved aside.

    What is kept is on the disk and noted when this returns.
    """
    directory, identity, catalog = own.directory, own.identity, own.catalog
    known = catalog.known()
    found = recover(
        directory,
        identity,
        known,
        catalog.segments(lambda number: segment_path(directory, number)),
        lambda path, number: _read_from_disk(path, number, own.disk),
        now,
        lost,
    )
    # a successor that has come since has rows here by now, which look like a torn end
    if not own.claim.held():
        raise own.claim.lost()
    _clear(directory, found, lost, own.disk)
    if found.replay.state is not None:
        state = found.replay.state
        sequences.load(state["marks"], state.get("sums", ()))
    for record in found.replay.records:
        sequences.add(record.marks, record.sums)
    rebuilt = not known.durable.segment
    cursors = catalog.cursors()
    if rebuilt:
        cursors = found.replay.cursors(identity.cursors) | cursors
    newest = found.segments[-1] if found.segments else None
    durable = Durable(
        newest.number if newest else known.durable.segment,
        found.group,
        tuple(found.ends),
        newest.stamp if newest else known.durable.stamp,
    )
    catalog.save(durable, segments=found.scanned, cursors=cursors if rebuilt else None)
    for number in found.gone:
        log.warning("segment %d of %s is not there any more", number, directory)
        catalog.drop_segment(number)
    if durable.group > identity.durable.group or set(cursors) != set(identity.cursors or ()):
        own.claim.note(durable, cursors)
    return found, cursors


def _clear(directory: Path, found: Recovered, lost: int | None, disk: Disk) -> None:
    """Cut off what was torn, and move aside what is in the place of a lost segment."""
    for path, size in found.cut:
        log.warning("%s: cut to %d bytes; what is cut was never reported stored", path, size)
        if size:
            _shorten(path, size, disk)
        else:
            disk.unlink(path)
    if lost is not None and (path := segment_path(directory, lost)).exists():
        disk.rename(path, path.with_name(path.name + ".lost"))
    disk.sync_directory(directory)


def _read_from_disk(path: Path, number: int, disk: Disk) -> Scan:
    """Scan a segment as it is on the disk.

    After a failed write-back the cache may show pages that never got to the disk: sync, drop the
    cached pages, then read. All that is found is durable.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        disk.sync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
    return scan(path, number, size)


def _shorten(path: Path, size: int, disk: Disk) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        disk.truncate(fd, size)
        disk.sync(fd)
    finally:
        os.close(fd)
