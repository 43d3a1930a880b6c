"""What is stored, as Arrow tables for the ledger: from an intake, or from Spark's file sink."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aqueduct_core.errors import IntakeFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import IntakeStatus, Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS, row_schema
from tests.faults.ledger import COLUMNS, DIGITS
from tests.support.intake_process import IntakeProcess
from tests.support.waiting import LONG

MANY_CHUNKS = 500
"""Pieces of a table above which it is copied into one, for the sake of speed."""

SCHEMA = pa.schema([row_schema(False, False).field(name) for name in COLUMNS])


def stored(intake: IntakeProcess) -> pa.Table:
    """Every durable row that an intake still has."""
    with intake.client() as client:
        status = client.status()
        return rows_between(client, status, status.starts, status.ends)


def rows_between(client: IntakeClient, status: IntakeStatus, starts: Any, ends: Any) -> pa.Table:
    batches = []
    for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
        offset = start
        for batch in client.read(Ticket(status.id, partition, start, end)):
            full = ROWS.expand(batch, partition, offset, False, False)
            batches.append(full.select(list(COLUMNS)))
            offset += batch.num_rows
    return pa.Table.from_batches(batches, schema=SCHEMA)


def _rows_of(file: str) -> pa.Table:
    rows = pq.ParquetFile(file).read(columns=list(COLUMNS)).cast(SCHEMA)
    return rows.set_column(0, "value", pc.binary_slice(rows["value"], 0, DIGITS))


class Consumer:
    """Reads an intake and commits behind itself, as a query does; in a thread of its own.

    ``pause`` seconds after each round make it slow. Takes up again after an intake came back.
    """

    def __init__(
        self, flight: str, credentials: Any, *, pause: float = 0.0, most: int = 1 << 62
    ) -> None:
        self.pause = pause
        self.rounds = 0
        self.failure: BaseException | None = None
        self.most = most
        self._client = IntakeClient(flight, credentials.for_clients())
        self._parts: list[pa.Table] = []
        self._over = threading.Event()
        self._caught_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Consumer:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._over.set()
        self._thread.join(LONG)
        self._client.close()

    @property
    def rows(self) -> int:
        return sum(part.num_rows for part in self._parts)

    def drained(self, seconds: float) -> pa.Table:
        """Everything, once nothing is left. Let all producers come to their end before."""
        self.pause = 0.0
        self._caught_up.clear()
        assert self._caught_up.wait(seconds), f"{self.rows} rows after {seconds} s"
        assert self.failure is None, self.failure
        return pa.concat_tables(list(self._parts))

    def _run(self) -> None:
        try:
            self._consume()
        except BaseException as error:
            self.failure = error
            self._caught_up.set()

    def _consume(self) -> None:
        position: tuple[int, ...] | None = None
        while not self._over.is_set():
            try:
                status = self._client.status()
                if position is None:
                    position = status.starts
                    self._client.commit("query", position)
                ends = tuple(
                    min(end, begin + self.most)
                    for begin, end in zip(position, status.ends, strict=True)
                )
                if ends == position:
                    self._caught_up.set()
                    self._client.wait(position, 0.2)
                    continue
                self._parts.append(rows_between(self._client, status, position, ends))
                position = ends
                self._client.commit("query", position)
            except IntakeFailed:
                self._over.wait(0.1)
                continue
            self.rounds += 1
            self._over.wait(self.pause)


class SinkTable:
    """What Spark's file sink has committed, by its own log; files are read once, and of payloads
    only the numbers at their front are kept.

    Files that a killed driver left behind are not in the log and do not count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: set[str] = set()
        self._table = SCHEMA.empty_table()

    def read(self) -> pa.Table:
        fresh = [file for file in self.files() if file not in self._seen]
        if fresh:
            self._table = pa.concat_tables([self._table, *map(_rows_of, fresh)])
            self._seen.update(fresh)
            if self._table["offset"].num_chunks > MANY_CHUNKS:
                self._table = self._table.combine_chunks()
        return self._table

    @property
    def rows(self) -> int:
        return self.read().num_rows

    def files(self) -> list[str]:
        """Those that the log of the sink names."""
        log = self._path / "_spark_metadata"
        if not log.is_dir():
            return []
        batches = {p.name: p for p in log.iterdir() if p.name.removesuffix(".compact").isdigit()}
        compact = [int(n.removesuffix(".compact")) for n in batches if n.endswith(".compact")]
        newest = max(compact, default=-1)
        chosen = [batches[f"{newest}.compact"]] if compact else []
        chosen += [p for name, p in batches.items() if name.isdigit() and int(name) > newest]
        files = []
        for path in chosen:
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                if entry["action"] == "add":
                    files.append(unquote(urlparse(entry["path"]).path))
        return files
