"""Taking a directory over: who it is, what is in it, and clearing away what a crash tore off."""

from __future__ import annotations

import logging
import os
import shlex
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa

from aqueduct_core.errors import DataLoss, InvalidOption, SpoolFailed
from aqueduct_core.spool.catalog import CATALOG, Catalog, CatalogOwner
from aqueduct_core.spool.claim import Claim, read_notes
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.durable import Durable
from aqueduct_core.spool.format.record import Codec
from aqueduct_core.spool.format.scan import Scan, scan
from aqueduct_core.spool.format.segment import Index, Segment, segment_numbers, segment_path
from aqueduct_core.spool.format.sequences import Sequences
from aqueduct_core.spool.health import io_failed
from aqueduct_core.spool.identity import IDENTITY, SpoolIdentity, load_identity, spool_in
from aqueduct_core.spool.recovery import Recovered, recover
from aqueduct_core.spool.stamps import read_head

log = logging.getLogger(__name__)

EPOCH_LEAP = 1_000_000
"""Added to an epoch that was found in the segments: openings that wrote nothing left no trace."""


def make_directory(directory: Path, disk: Disk) -> None:
    """Make it and its parents, each as durable as what will be in it."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        disk.make_directory(path)
        disk.sync_directory(path.parent)


def require_spool_in(directory: Path, spool: str | None) -> None:
    """Refuse to make a spool where a known one must be: a volume that is not mounted looks like an
    empty directory. None: any will do.

    Raises:
        DataLoss: SPOOL_REPLACED when another one is there.
        SpoolFailed: IO when there is none in sight.
    """
    if spool is None:
        return
    try:
        found = spool_in(directory)
    except OSError as error:
        raise io_failed(directory, str(error)) from error
    if found is None:
        raise SpoolFailed(
            "IO",
            f"spool {spool} is not in sight in {directory}",
            "Mount its volume, or bring the directory back",
        )
    if found != spool:
        raise DataLoss(
            "SPOOL_REPLACED",
            f"{directory} holds spool {found}, not {spool}",
            "Bring the old spool directory back, or start with a new checkpoint",
        )


def check_schema(schema: pa.Schema) -> None:
    """A dictionary would need messages of its own, which reading a single record would not find.

    Raises:
        ValueError: a column is dictionary encoded.
    """

    def has_dictionary(kind: pa.DataType) -> bool:
        if pa.types.is_dictionary(kind):
            return True
        return any(has_dictionary(kind.field(i).type) for i in range(kind.num_fields))

    for column in schema:
        if has_dictionary(column.type):
            raise ValueError(f"column {column.name} is dictionary encoded")


def identify(directory: Path, schema: pa.Schema, partitions: int) -> SpoolIdentity:
    """Whose directory this is, with so many partitions from now on.

    Raises:
        SpoolFailed: VERSION for a newer format, or other columns.
        InvalidOption: fewer partitions than there are. Where there are fewer, empty ones are added.
    """
    identity = find_identity(directory, schema) or SpoolIdentity.fresh(partitions, schema)
    if identity.partitions > partitions:
        raise InvalidOption(
            "CONFLICT",
            f"{directory} was made with {identity.partitions} partitions, not {partitions}",
            f"Set the partitions to {identity.partitions}, or use another directory",
        )
    if not identity.schema.equals(schema):
        raise SpoolFailed(
            "VERSION",
            f"{directory} holds the columns {identity.schema.names}, not {schema.names} as written"
            " by this release",
            "Read it to its end with the release that wrote it, then use another directory",
        )
    return identity.wide(partitions)


def find_identity(directory: Path, schema: pa.Schema | None = None) -> SpoolIdentity | None:
    """What the files of identity and owners say, and where these are lost or old copies the head
    of the newest segment; None when none can be read.

    Args:
        schema: the columns, for when the file is lost.

    Raises:
        SpoolFailed: VERSION; CORRUPT when the file of the identity is that of another spool.
    """
    identity = load_identity(directory)
    if identity is not None:
        schema = identity.schema
    if schema is None:
        return None
    if identity is None and (notes := read_notes(directory)) is not None:
        log.warning(
            "%s has lost its identity; its owner says that it is %s", directory, notes.spool
        )
        identity = SpoolIdentity(notes.spool, 0, notes.partitions, schema).noted(notes)
    preamble = len(Codec(schema).preamble)
    for number in reversed(segment_numbers(directory)):
        state = read_head(segment_path(directory, number), number, preamble)
        if state is None:
            continue
        epoch, partitions = state["epoch"], state["partitions"]
        if identity is None:
            log.warning("%s has lost its identity; it is %s", directory, state["id"])
            return SpoolIdentity(state["id"], epoch + EPOCH_LEAP, partitions, schema)
        if identity.id == state["id"] and identity.epoch < epoch:
            log.warning("%s has lost its owners after epoch %d", directory, identity.epoch)
            identity = identity.at(epoch + EPOCH_LEAP).wide(partitions)
        if identity.id != state["id"]:
            notes = read_notes(directory)
            if notes is not None and notes.spool == state["id"]:
                raise _other_identity(directory, identity.id, notes.spool)
        break
    return identity


def _other_identity(directory: Path, theirs: str, ours: str) -> SpoolFailed:
    return SpoolFailed(
        "CORRUPT",
        f"{directory / IDENTITY} belongs to the spool {theirs}, and all else there to {ours}",
        "Bring the file back, or let the next owner make it anew:"
        f" rm {shlex.quote(str(directory / IDENTITY))}",
    )


def take_epoch(
    directory: Path, before: SpoolIdentity, seen: Collection[int], disk: Disk
) -> tuple[Catalog, Claim, SpoolIdentity]:
    """The catalog, emptied unless the last owner wrote it; the claim of the next owner, whose epoch
    is above all that are known; and the identity with it, which is on the disk. ``seen`` as of
    `Claim.take`.

    Raises:
        SpoolFailed: LOCKED when another process took that epoch, or one since ``before`` was read.
        OSError, sqlite3.Error: the disk failed.
    """
    with ExitStack() as held:
        catalog = Catalog.open(directory / CATALOG, before.partitions, disk)
        held.callback(catalog.close)
        last = catalog.known().owner
        good = is_of(last, before)
        after = last.epoch if good and last else 0
        claim = Claim.take(directory, disk, before.at(max(before.epoch, after)).notes, seen)
        held.callback(claim.close)
        with late_is_locked(claim):
            identity = before.noted(claim)
            identity.save(directory, disk)
            if not good:
                log.warning(
                    "the catalog of %s is lost, or an old copy: it is built anew", directory
                )
            owner = CatalogOwner(identity.id, claim.epoch, (before.life, claim.life))
            try:
                catalog.begin(owner, anew=not good)
            except sqlite3.DatabaseError as error:  # seen only where it is written
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                    raise
                log.warning("the catalog of %s is damaged (%s): it is built anew", directory, error)
                catalog.close()
                catalog = Catalog.anew(directory / CATALOG, before.partitions, disk)
                held.callback(catalog.close)
                catalog.begin(owner, anew=True)
        held.pop_all()
    return catalog, claim, identity


@contextmanager
def late_is_locked(claim: Claim) -> Iterator[None]:
    """What fails because another owner has come meanwhile is told as that.

    Raises:
        SpoolFailed: LOCKED, IO.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if claim.held():
            raise
        raise claim.lost() from error


def is_of(last: CatalogOwner | None, identity: SpoolIdentity) -> bool:
    """Whether the owner that wrote a catalog last is that of the identity, or a later one (then it
    is the identity that is an old copy)."""
    if last is None:
        return not identity.life
    return last.spool == identity.id and (
        identity.life in ("", *last.lives) or last.epoch > identity.epoch
    )


def take_over(
    directory: Path,
    identity: SpoolIdentity,
    claim: Claim,
    catalog: Catalog,
    marks: Sequences,
    disk: Disk,
    now: float,
    lost: int | None = None,
) -> tuple[Recovered, dict[str, list[int | None]]]:
    """Recover, clear away, fill ``marks`` and bring the catalog up to date; also gives the cursors.
    ``lost`` as of `recover`: what is in the place of that segment is moved aside.

    What is kept is on the disk and noted when this returns.

    Raises:
        InvalidOption: CONFLICT as of `recover`.
        SpoolFailed: CORRUPT; LOCKED when another owner has come meanwhile.
        OSError: the disk failed.
    """
    known = catalog.known()
    found = recover(
        directory,
        identity,
        known,
        catalog.segments(lambda number: segment_path(directory, number)),
        lambda path, number: read_from_disk(path, number, disk),
        now,
        lost,
    )
    # a successor that has come since has rows here by now, which look like a torn end
    if not claim.held():
        raise claim.lost()
    for path, size in found.cut:
        log.warning("%s: cut to %d bytes; what is cut was never reported stored", path, size)
        if size:
            _shorten(path, size, disk)
        else:
            disk.unlink(path)
    if lost is not None and (path := segment_path(directory, lost)).exists():
        disk.rename(path, path.with_name(path.name + ".lost"))
    disk.sync_directory(directory)
    if found.replay.state is not None:
        state = found.replay.state
        marks.load(state["marks"], state.get("sums", ()))
    for record in found.replay.records:
        marks.add(record.marks, record.sums)
    lost = not known.durable.segment
    cursors = catalog.cursors()
    if lost:
        cursors = found.replay.cursors(identity.cursors) | cursors
    newest = found.segments[-1] if found.segments else None
    durable = Durable(
        newest.number if newest else known.durable.segment,
        found.group,
        tuple(found.ends),
        newest.stamp if newest else known.durable.stamp,
    )
    catalog.enter(
        durable,
        segments=found.scanned,
        cursors=cursors if lost else None,
    )
    for number in found.gone:
        log.warning("segment %d of %s is not there any more", number, directory)
        catalog.drop_segment(number)
    if durable.group > identity.durable.group or set(cursors) != set(identity.cursors or ()):
        claim.note(durable, cursors)
    return found, cursors


def read_from_disk(path: Path, number: int, disk: Disk) -> Scan:
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


def load_index(segment: Segment, catalog: Catalog | None, partitions: int) -> Index:
    """The index of a closed segment: from the catalog, or from the segment when that is damaged."""
    packed = catalog.positions(segment.number) if catalog else None
    index = Index.unpack(packed, partitions) if packed else None
    if index is None:
        index = Index(partitions)
        index.add_records(scan(segment.path, segment.number).records)
    return index


def _shorten(path: Path, size: int, disk: Disk) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        disk.truncate(fd, size)
        disk.sync(fd)
    finally:
        os.close(fd)
