"""Taking a directory over: who it is, and all that its owner holds of it, in one go."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from aqueduct_core.errors import DataLoss, InvalidOption, SpoolFailed
from aqueduct_core.spool.catalog import CATALOG, Catalog, CatalogOwner
from aqueduct_core.spool.claim import Claim, taken_epochs
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.health import failed_by, not_opened
from aqueduct_core.spool.identity import SpoolIdentity, find_identity, spool_in
from aqueduct_core.spool.lock import SpoolLock
from aqueduct_core.spool.sync import Sync, SyncFactory

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ownership:
    """Ends with `close`."""

    directory: Path
    disk: Disk
    lock: SpoolLock
    claim: Claim
    catalog: Catalog
    identity: SpoolIdentity
    sync: Sync

    def close(self) -> None:
        self.sync.close()
        self.catalog.close()
        self.claim.close()
        self.lock.release()


@contextmanager
def acquired(
    directory: Path,
    *,
    schema: pa.Schema,
    partitions: int,
    spool_id: str | None,
    sync: SyncFactory,
    disk: Disk,
) -> Iterator[Ownership]:
    """Own a directory from now on, unless the block fails.

    Raises:
        DataLoss: SPOOL_REPLACED when another spool than ``spool_id`` is there.
        SpoolFailed: LOCKED, also when the block fails because another owner has come meanwhile;
            VERSION, FULL or IO.
        InvalidOption: the directory has more partitions.
    """
    check_schema(schema)
    if partitions < 1:
        raise InvalidOption(
            "BAD_VALUE", f"a spool of {partitions} partitions", "Give it at least 1 partition"
        )
    with ExitStack() as held:
        try:
            require_spool_in(directory, spool_id)
            disk.make_directories(directory)
            lock = SpoolLock(directory)
            held.callback(lock.release)
            seen = taken_epochs(directory)
            before = identify(directory, schema, partitions)
            catalog, claim, identity = take_epoch(directory, before, seen, disk)
            held.callback(claim.close)
            held.callback(catalog.close)
            port = sync()
            held.callback(port.close)
            with late_is_locked(claim):
                yield Ownership(directory, disk, lock, claim, catalog, identity, port)
        except (OSError, sqlite3.Error) as error:
            raise not_opened(directory, error) from error
        held.pop_all()


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
        raise failed_by(directory, error) from error
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
    return identity.with_partitions(partitions)


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
        good = before.has_written(last)
        after = last.epoch if good and last else 0
        claim = Claim.take(directory, disk, before.at(max(before.epoch, after)).notes, seen)
        held.callback(claim.close)
        with late_is_locked(claim):
            identity = before.with_notes(claim)
            identity.save(directory, disk)
            if not good:
                log.warning(
                    "the catalog of %s is lost, or an old copy: it is built anew", directory
                )
            owner = CatalogOwner(identity.id, claim.epoch, (before.life, claim.life))
            try:
                catalog.begin(owner, empty=not good)
            except sqlite3.DatabaseError as error:  # seen only where it is written
                if getattr(error, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
                    raise
                log.warning("the catalog of %s is damaged (%s): it is built anew", directory, error)
                catalog.close()
                catalog = Catalog.rebuilt(directory / CATALOG, before.partitions, disk)
                held.callback(catalog.close)
                catalog.begin(owner, empty=True)
        held.pop_all()
    return catalog, claim, identity


@contextmanager
def late_is_locked(claim: Claim) -> Iterator[None]:
    """What fails because another owner has come meanwhile is reported as that.

    Raises:
        SpoolFailed: LOCKED, IO.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if claim.held():
            raise
        raise claim.lost() from error
