"""Reading stored rows by mapping segments against Flight: ``python -m tests.bench.reading``.

A process of its own serves a spool, as an intake does; this one reads it as a task does, as far as
the batches that would go to Spark. Each repetition reads the same rows both ways, in changing
order; a line gives the medians, and the median of the ratios within one repetition. Goal: mapped
reads are never slower than Flight, and cost the intake next to nothing.
"""

from __future__ import annotations

import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.server import IntakeServer
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ATTACHMENTS, HEADERS, ROWS, SOURCE
from aqueduct_core.intake.storage.rows import EVENT
from aqueduct_core.spool import InlineSync, Spool
from aqueduct_core.spool.locations import Location
from aqueduct_spark.formats.aqueduct.options import AqueductRead
from aqueduct_spark.formats.aqueduct.rows import AqueductRows
from aqueduct_spark.options.read_parts import RowOptions
from aqueduct_spark.read.local import rows_of
from aqueduct_spark.read.shaping import RowShaper

REPETITIONS = 5
SHAPES = ((100, 1_000_000, 5_000), (1_000, 200_000, 1_000), (65_536, 4_000, 16))
"""Bytes of a row, rows, rows of a stored record."""

Read = Callable[[IntakeClient, Ticket], Iterator[pa.RecordBatch]]


class Measured(NamedTuple):
    """Of one read: seconds, and seconds of processor time here and in the serving process."""

    wall: float
    own: float
    intake: float


class Served:
    """The part of an intake that a reader meets."""

    def __init__(self, spool: Spool) -> None:
        self.schema = spool.schema
        self._spool = spool

    def read(self, ticket: Ticket) -> Iterator[pa.RecordBatch]:
        return self._spool.read(ticket.partition, ticket.start, ticket.end)

    def locations(self, ticket: Ticket) -> list[Location]:
        return self._spool.locations(ticket.partition, ticket.start, ticket.end)


def record(size: int, count: int) -> pa.RecordBatch:
    """As an intake stores a group: one run."""
    source = {"channel": "readings", "producer": "bench", "reliable": True, "timestamp": 0}
    return pa.RecordBatch.from_arrays(
        [
            pa.array([b"x" * size] * count, pa.binary()),
            pa.array(range(count), pa.int64()),
            pa.nulls(count, HEADERS),
            pa.nulls(count, ATTACHMENTS),
            pa.RunEndEncodedArray.from_arrays(
                pa.array([count], pa.int32()), pa.array([source], SOURCE)
            ),
            ROWS.no_events(count),
        ],
        schema=ROWS.schema,
    )


def serve(
    directory: Path, size: int, rows: int, grain: int, credentials: Credentials, pipe: Connection
) -> None:
    """Fill a spool and serve it; answers each word on the pipe with its processor time so far."""
    with Spool.open(directory, schema=ROWS.schema, partitions=2, sync=InlineSync) as spool:
        batch = record(size, grain)
        for _ in range(rows // grain):
            spool.append(0, batch)
            spool.flush()
        spool.settle()
        with IntakeServer("127.0.0.1", 0, credentials, Served(spool)) as host:  # type: ignore[arg-type]
            pipe.send((host.port, spool.id, spool.ends()[0]))
            while pipe.recv():
                pipe.send(cpu())


def mapped(client: IntakeClient, ticket: Ticket) -> Iterator[pa.RecordBatch]:
    return rows_of(client, ticket, AqueductRows.stored_schema, (EVENT,))


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(read: Read, client: IntakeClient, ticket: Ticket, pipe: Connection) -> Measured:
    shaper = RowShaper(AqueductRows(), RowOptions(own=AqueductRead()))
    pipe.send(True)
    theirs, ours, began = pipe.recv(), cpu(), time.perf_counter()
    at = ticket.start
    for batch in read(client, ticket):
        for rows in shaper.rows(batch, 0, at):
            assert rows.num_rows
        at += batch.num_rows
    wall, own = time.perf_counter() - began, cpu() - ours
    assert at == ticket.end
    pipe.send(True)
    return Measured(wall, own, pipe.recv() - theirs)


def compare(directory: Path, size: int, rows: int, grain: int) -> bool:
    """Print the line of one size; whether it reaches the goal."""
    credentials = Credentials.fresh()
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(directory, size, rows, grain, credentials, there)
    )
    process.start()
    try:
        port, spool, end = here.recv()
        ticket = Ticket(spool, 0, 0, end)
        with IntakeClient(f"127.0.0.1:{port}", credentials.for_clients()) as client:
            ways: tuple[Read, Read] = (mapped, IntakeClient.read)
            pairs = []
            for turn in range(REPETITIONS + 1):
                both = [None, None]
                for way in (0, 1) if turn % 2 else (1, 0):
                    both[way] = measure(ways[way], client, ticket, here)  # type: ignore[call-overload]
                pairs.append(both)
        here.send(False)
    finally:
        process.join(30)
        process.terminate()
    return report(size, rows, pairs[1:])  # type: ignore[arg-type]


def report(size: int, rows: int, pairs: list[tuple[Measured, Measured]]) -> bool:
    faster = statistics.median(flight.wall / mapped.wall for mapped, flight in pairs)
    rates = [
        rows / statistics.median(way.wall for way in ways) for ways in zip(*pairs, strict=True)
    ]
    task = statistics.median(flight.own / max(mapped.own, 1e-6) for mapped, flight in pairs)
    intake = [
        statistics.median(way.intake for way in ways) * 1e9 / (rows * size)
        for ways in zip(*pairs, strict=True)
    ]
    print(
        f"{size:8d} {rates[0]:13,.0f} {rates[1]:13,.0f} {faster:7.2f} {task:9.2f} "
        f"{intake[0]:12.2f} {intake[1]:12.2f}",
        flush=True,
    )
    return faster >= 1.0 and intake[0] <= intake[1] / 5


def main() -> int:
    print(
        f"{'row':>8} {'mapped rows/s':>13} {'Flight rows/s':>13} {'faster':>7} {'task CPU':>9} "
        f"{'intake CPU s/GB: mapped':>12} {'Flight':>8}"
    )
    reached = True
    with tempfile.TemporaryDirectory(prefix="bench-reading-") as name:
        for size, rows, grain in SHAPES:
            reached = compare(Path(name) / str(size), size, rows, grain) and reached
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
