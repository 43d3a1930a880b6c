"""All that an owner holds of its directory, and taking it in one go."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from aqueduct_core.errors import InvalidOption
from aqueduct_core.spool.catalog import Catalog
from aqueduct_core.spool.claim import Claim, taken
from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.health import not_opened
from aqueduct_core.spool.identity import SpoolIdentity, SpoolLock
from aqueduct_core.spool.opening import (
    check_schema,
    identify,
    late_is_locked,
    make_directory,
    require_spool_in,
    take_epoch,
)
from aqueduct_core.spool.sync import Sync, SyncFactory


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
def taking(
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
            make_directory(directory, disk)
            lock = SpoolLock(directory)
            held.callback(lock.release)
            seen = taken(directory)
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
