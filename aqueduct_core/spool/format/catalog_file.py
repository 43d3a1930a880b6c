"""The SQLite file of a catalog: its tables, and those of the format before.

SQLite does not notice a changed bit in a row, so each row ends with a checksum of the others; the
packed indexes carry their own (`segment`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aqueduct_core.primitives.atomic_file import FILE_MODE

FORMAT = 2
"""1: without stamps of segments and checksums of rows."""

_TABLES = {
    "segments": "number INTEGER PRIMARY KEY, size INTEGER, starts TEXT, ends TEXT, sealed REAL,"
    " positions BLOB, stamp TEXT, crc INTEGER",
    "cursors": "name TEXT PRIMARY KEY, ends TEXT, crc INTEGER",
    "known": "name TEXT PRIMARY KEY, value TEXT, crc INTEGER",
}
_CHECKED = {
    "segments": ("number", "size", "starts", "ends", "sealed", "stamp"),
    "cursors": ("name", "ends"),
    "known": ("name", "value"),
}


def checksum(*values: object) -> int:
    """Of the columns of a row but the index."""
    return zlib.crc32(json.dumps(values).encode())


def connect(path: Path) -> sqlite3.Connection:
    """To be written, with all tables.

    Raises:
        sqlite3.DatabaseError: it is damaged, or of a newer release.
    """
    # SQLite leaves the mode to the umask; the files that it makes beside this one have its mode
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    db = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # each commit is durable: a cursor that was confirmed must not fall back
        db.execute("PRAGMA synchronous = FULL")
        version = _version(db)
        if version != FORMAT:
            with db:
                db.execute("BEGIN")
                _renew(db, version)
                db.execute(f"PRAGMA user_version = {FORMAT}")
    except BaseException:
        db.close()
        raise
    return db


def look(path: Path) -> sqlite3.Connection:
    """To be read only; nothing is created or changed.

    Raises:
        sqlite3.Error: there is none, or as for `connect`.
    """
    db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    try:
        _version(db)
    except BaseException:
        db.close()
        raise
    return db


def rows(db: sqlite3.Connection, table: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table without checksum and index, in order.

    Raises:
        sqlite3.DatabaseError: one has changed.
    """
    columns = _CHECKED[table]
    present = {name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")}
    chosen = ", ".join(name if name in present else f"'' AS {name}" for name in columns)
    crc = "crc" if "crc" in present else "NULL"
    for *values, found in db.execute(f"SELECT {chosen}, {crc} FROM {table} ORDER BY {columns[0]}"):
        if "crc" in present and found != checksum(*values):
            raise sqlite3.DatabaseError(f"a row of {table} is damaged")
        yield tuple(values)


def _version(db: sqlite3.Connection) -> int:
    version = int(db.execute("PRAGMA user_version").fetchone()[0])
    if not 0 <= version <= FORMAT:
        raise sqlite3.DatabaseError(f"catalog version {version}")
    return version


def _renew(db: sqlite3.Connection, version: int) -> None:
    """Make the tables, with what those of the format before hold."""
    if version == 0:
        for table, declared in _TABLES.items():
            db.execute(f"CREATE TABLE {table}({declared})")
        return
    db.execute("ALTER TABLE segments ADD COLUMN stamp TEXT DEFAULT ''")
    for table, columns in _CHECKED.items():
        db.execute(f"ALTER TABLE {table} ADD COLUMN crc INTEGER")
        key = columns[0]
        for values in db.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall():
            db.execute(
                f"UPDATE {table} SET crc = ? WHERE {key} = ?", (checksum(*values), values[0])
            )
