"""The catalog: what is worth not reading again from the segments, in one SQLite file.

It holds the closed segments with their indexes, the cursors, the state (`record`) after the last
closed segment, and what is known to be durable. When it is lost, damaged, or that of another life
(`identity`) it is built again from the segments. Only the cursors then fall back, to where they
were when the newest segment was started: their readers commit again, and what was trimmed stays
trimmed.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from aqueduct_core.spool.disk import Disk
from aqueduct_core.spool.format.catalog_file import checksum, connect, look, rows
from aqueduct_core.spool.format.durable import NOTHING, Durable, padded, state_with_partitions
from aqueduct_core.spool.format.scan import scan
from aqueduct_core.spool.format.segment import Index, Segment

log = logging.getLogger(__name__)

CATALOG = "catalog.sqlite"

_NOT_ITS_OWN = frozenset(
    (
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_PERM,
    )
)
"""Errors of the disk or the system, which a new catalog would meet as well."""


class CatalogOwner(NamedTuple):
    """Who began to write a catalog last: the spool, its epoch, and the ``lives`` (`identity`) of
    which the identity may have the one or the other, as the owner was just beginning."""

    spool: str
    epoch: int
    lives: tuple[str, str]


@dataclass(frozen=True, slots=True)
class KnownSegment:
    """``state`` is the state after the closed segment ``state_after``; None when there is none."""

    durable: Durable = NOTHING
    state_after: int = 0
    state: dict[str, Any] | None = None
    owner: CatalogOwner | None = None


class Catalog:
    """One connection, used under a lock: readers ask for indexes from other threads.

    Ends when closed. Every change is durable when its method returns.
    """

    def __init__(self, db: sqlite3.Connection, partitions: int) -> None:
        """Use ``open`` or ``look``.

        Raises:
            sqlite3.DatabaseError: a row is damaged.
        """
        self._lock = threading.Lock()
        self._db = db
        self._partitions = partitions
        self._owner: CatalogOwner | None = None
        try:
            self.known()
            self.cursors()
            self.segments(lambda number: Path(str(number)))
        except (ValueError, TypeError) as error:
            db.close()
            raise sqlite3.DatabaseError(f"a row is damaged: {error}") from None
        except BaseException:
            db.close()
            raise

    @classmethod
    def open(cls, path: Path, partitions: int, disk: Disk) -> Catalog:
        """To be written; a damaged one is set aside and begun anew. What it has of
        fewer partitions it gives for ``partitions``.

        Raises:
            sqlite3.Error: the disk failed.
        """
        try:
            return cls(connect(path), partitions)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _NOT_ITS_OWN:
                raise
            log.warning("the catalog %s is damaged (%s): it is built anew", path, error)
        return cls.rebuilt(path, partitions, disk)

    @classmethod
    def rebuilt(cls, path: Path, partitions: int, disk: Disk) -> Catalog:
        """An empty one, in the place of one that is damaged and set aside.

        Raises:
            sqlite3.Error: the disk failed.
        """
        for suffix in ("-wal", "-shm"):
            beside = path.with_name(path.name + suffix)
            if beside.exists():
                disk.unlink(beside)
        disk.rename(path, path.with_name(path.name + ".damaged"))
        return cls(connect(path), partitions)

    @classmethod
    def look(cls, path: Path, partitions: int) -> Catalog:
        """Of another owner; nothing is created or changed.

        Raises:
            sqlite3.Error: there is none, or it is damaged.
        """
        return cls(look(path), partitions)

    def segments(self, path_of: Callable[[int], Path]) -> dict[int, Segment]:
        """The closed segments, without their indexes."""
        found = {}
        for number, size, starts, ends, sealed, stamp in self._rows("segments"):
            segment = Segment(
                path_of(number), number, self._offsets(starts), self._offsets(ends), stamp
            )
            segment.size, segment.sealed = size, sealed
            found[number] = segment
        return found

    def positions(self, number: int) -> bytes | None:
        """The packed index of a closed segment."""
        query = "SELECT positions FROM segments WHERE number = ?"
        with self._lock:
            found = self._db.execute(query, (number,)).fetchone()
        return None if found is None else bytes(found[0])

    def cursors(self) -> dict[str, list[int | None]]:
        return {
            name: padded(json.loads(ends), self._partitions, None)
            for name, ends in self._rows("cursors")
        }

    def known(self) -> KnownSegment:
        """``KnownSegment()`` when the catalog is new."""
        found = {name: json.loads(value) for name, value in self._rows("known")}
        after, state = found.get("state", (0, None))
        return KnownSegment(
            Durable.from_json(found.get("durable", [0, 0, []]), self._partitions),
            after,
            state and state_with_partitions(state, self._partitions),
            CatalogOwner(*found["owner"]) if "owner" in found else None,
        )

    def begin(self, owner: CatalogOwner, *, empty: bool) -> None:
        """From now on this owner writes here; ``empty``: nothing that is here counts."""

        def act(db: sqlite3.Connection) -> None:
            for table in ("segments", "cursors", "known") if empty else ():
                db.execute(f"DELETE FROM {table}")
            _put_known(db, "owner", owner)

        self._change(act)
        self._owner = owner

    def save(
        self,
        durable: Durable,
        *,
        segments: Sequence[Segment] = (),
        state: dict[str, Any] | None = None,
        cursors: Mapping[str, Sequence[int | None]] | None = None,
    ) -> None:
        """Note what is durable, closed segments with the state after the last of them, and cursors.

        All of it or nothing.
        """

        def act(db: sqlite3.Connection) -> None:
            for segment in segments:
                _put_segment(db, segment)
            for name, position in (cursors or {}).items():
                ends = json.dumps(list(position))
                db.execute(
                    "INSERT OR REPLACE INTO cursors VALUES (?, ?, ?)",
                    (name, ends, checksum(name, ends)),
                )
            _put_known(db, "durable", durable)
            if segments and state is not None:
                _put_known(db, "state", [segments[-1].number, state])

        self._change(act)

    def drop_cursor(self, name: str) -> None:
        self._change(lambda db: db.execute("DELETE FROM cursors WHERE name = ?", (name,)))

    def drop_segment(self, number: int) -> None:
        self._change(lambda db: db.execute("DELETE FROM segments WHERE number = ?", (number,)))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _change(self, act: Callable[[sqlite3.Connection], object]) -> None:
        """One transaction; durable when this returns, undone when it raises.

        Raises:
            sqlite3.DatabaseError: a later owner of the spool writes here: this one is late.
        """
        with self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            found = self._db.execute("SELECT value FROM known WHERE name = 'owner'").fetchone()
            last = CatalogOwner(*json.loads(found[0])) if found else None
            ours = self._owner
            if ours and last and last.spool == ours.spool and last.epoch > ours.epoch:
                raise sqlite3.DatabaseError(f"the owner of epoch {last.epoch} writes here now")
            act(self._db)

    def _offsets(self, text: str) -> list[int]:
        return padded(json.loads(text), self._partitions, 0)

    def _rows(self, table: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return list(rows(self._db, table))


def load_index(segment: Segment, catalog: Catalog | None, partitions: int) -> Index:
    """The index of a closed segment: from the catalog, or from the segment when that is damaged."""
    packed = catalog.positions(segment.number) if catalog else None
    index = Index.unpack(packed, partitions) if packed else None
    if index is None:
        index = Index(partitions)
        index.add_records(scan(segment.path, segment.number).records)
    return index


def _put_known(db: sqlite3.Connection, name: str, value: object) -> None:
    text = json.dumps(value)
    db.execute("INSERT OR REPLACE INTO known VALUES (?, ?, ?)", (name, text, checksum(name, text)))


def _put_segment(db: sqlite3.Connection, segment: Segment) -> None:
    starts, ends = json.dumps(segment.starts), json.dumps(segment.ends)
    number, size, sealed = segment.number, segment.size, segment.sealed
    index = segment.index.pack() if segment.index else b""
    crc = checksum(number, size, starts, ends, sealed, segment.stamp)
    db.execute(
        "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (number, size, starts, ends, sealed, index, segment.stamp, crc),
    )
