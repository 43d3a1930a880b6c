"""The tables of a catalog: a changed row is noticed, and those of the format before are renewed."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aqueduct_core.spool.format.catalog_file import FORMAT, checksum, connect, look, rows


def test_a_changed_row_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with closing(connect(path)) as db:
        with db:
            db.execute("INSERT INTO cursors VALUES ('q', '[1]', ?)", (checksum("q", "[1]"),))
        assert list(rows(db, "cursors")) == [("q", "[1]")]
        with db:
            db.execute("UPDATE cursors SET ends = '[2]'")
        with pytest.raises(sqlite3.DatabaseError, match="a row of cursors is damaged"):
            list(rows(db, "cursors"))


def test_format_1_is_read_and_renewed(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(
            "CREATE TABLE segments(number INTEGER PRIMARY KEY, size INTEGER, starts TEXT,"
            " ends TEXT, sealed REAL, positions BLOB)"
        )
        db.execute("CREATE TABLE cursors(name TEXT PRIMARY KEY, ends TEXT)")
        db.execute("CREATE TABLE known(name TEXT PRIMARY KEY, value TEXT)")
        db.execute("INSERT INTO segments VALUES (1, 9, '[0]', '[4]', 2.5, x'00')")
        db.execute("PRAGMA user_version = 1")
    expected = [(1, 9, "[0]", "[4]", 2.5, "")]
    with closing(look(path)) as db:
        assert list(rows(db, "segments")) == expected
    with closing(connect(path)) as db:
        assert list(rows(db, "segments")) == expected
        assert db.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    with closing(look(path)) as db:
        assert list(rows(db, "segments")) == expected


def test_a_newer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    for opened in (look, connect):
        with pytest.raises(sqlite3.DatabaseError, match=f"catalog version {FORMAT + 1}"):
            opened(path)
