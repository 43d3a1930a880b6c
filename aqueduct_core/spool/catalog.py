"""The catalog: what is worth not reading again from the segments, in one SQLite file.

It holds the closed segments with their indexes, the cursors, the state at the last close of a segment,
and the newest group known durable. All but the newest positions of the cursors can be rebuilt from
the segments; a segment's head holds the cursors as they were when it was started.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aqueduct_core.spool.segment import Segment

log = logging.getLogger(__name__)

FORMAT = 1

_SCHEMA = f"""
PRAGMA user_version = {FORMAT};
CREATE TABLE IF NOT EXISTS segments(
    number INTEGER PRIMARY KEY, size INTEGER, starts TEXT, ends TEXT, sealed REAL, positions BLOB);
CREATE TABLE IF NOT EXISTS cursors(name TEXT PRIMARY KEY, ends TEXT);
CREATE TABLE IF NOT EXISTS known(name TEXT PRIMARY KEY, value TEXT);
"""


@dataclass(frozen=True, slots=True)
class Known:
    """What the catalog knows to be durable.

    ``segment`` is the newest segment that holds a durable group, ``group`` and ``ends`` what was durable.
    ``state`` is the state after the closed segment ``state_after``; None when there is none.
    """

    segment: int = 0
    group: int = 0
    ends: tuple[int, ...] = ()
    state_after: int = 0
    state: dict[str, Any] | None = None


class Catalog:
    """One connection, used under a lock: readers ask for indexes from other threads.

    Ends when closed. Every change is durable when its method returns.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._db = self._open(path)

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        try:
            return _connect(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            log.warning("the catalog %s is damaged (%s): it is built anew", path, error)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        path.replace(path.with_name(path.name + ".damaged"))
        return _connect(path)

    def segments(self, directory_of: Any) -> dict[int, Segment]:
        """The closed segments, without their indexes; ``directory_of(number)`` gives each path."""
        found = {}
        for number, size, starts, ends, sealed in self._rows(
            "SELECT number, size, starts, ends, sealed FROM segments ORDER BY number"
        ):
            segment = Segment(directory_of(number), number, json.loads(starts), json.loads(ends))
            segment.size, segment.sealed = size, sealed
            found[number] = segment
        return found

    def positions(self, number: int) -> bytes | None:
        """The packed index of a closed segment."""
        for (data,) in self._rows("SELECT positions FROM segments WHERE number = ?", number):
            return bytes(data)
        return None

    def cursors(self) -> dict[str, list[int]]:
        return {name: json.loads(ends) for name, ends in self._rows("SELECT * FROM cursors")}

    def known(self) -> Known:
        found = dict(self._rows("SELECT * FROM known"))
        durable = json.loads(found.get("durable", '{"segment":0,"group":0,"ends":[]}'))
        state = json.loads(found.get("state", '{"after":0,"state":null}'))
        return Known(
            durable["segment"],
            durable["group"],
            tuple(durable["ends"]),
            state["after"],
            state["state"],
        )

    def seal(
        self,
        segments: list[Segment],
        *,
        segment: int,
        group: int,
        ends: list[int],
        state: dict[str, Any] | None,
    ) -> None:
        """Enter closed segments, and what is durable now; ``state`` is that after the last of them."""
        with self._lock, self._db:
            for closed in segments:
                index = closed.index()
                self._db.execute(
                    "INSERT OR REPLACE INTO segments VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        closed.number,
                        closed.size,
                        json.dumps(closed.starts),
                        json.dumps(closed.ends),
                        closed.sealed,
                        index.pack() if index else b"",
                    ),
                )
            self._durable(segment, group, ends)
            if segments and state is not None:
                self._know("state", {"after": segments[-1].number, "state": state})

    def commit(
        self, cursors: dict[str, list[int]], *, segment: int, group: int, ends: list[int]
    ) -> None:
        """Enter the positions of these cursors, and what is durable now."""
        with self._lock, self._db:
            self._db.executemany(
                "INSERT OR REPLACE INTO cursors VALUES (?, ?)",
                [(name, json.dumps(positions)) for name, positions in cursors.items()],
            )
            self._durable(segment, group, ends)

    def drop_cursor(self, name: str) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM cursors WHERE name = ?", (name,))

    def drop_segment(self, number: int) -> None:
        with self._lock, self._db:
            self._db.execute("DELETE FROM segments WHERE number = ?", (number,))

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def _durable(self, segment: int, group: int, ends: list[int]) -> None:
        self._know("durable", {"segment": segment, "group": group, "ends": ends})

    def _know(self, name: str, value: dict[str, Any]) -> None:
        self._db.execute("INSERT OR REPLACE INTO known VALUES (?, ?)", (name, json.dumps(value)))

    def _rows(self, query: str, *values: object) -> list[Any]:
        with self._lock:
            return self._db.execute(query, values).fetchall()


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        # each commit is durable: a cursor that was confirmed must not fall back
        db.execute("PRAGMA synchronous = FULL")
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, FORMAT):
            raise sqlite3.DatabaseError(f"catalog version {version}")
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db
