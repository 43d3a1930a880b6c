"""Reading stored rows by mapping segments against Flight: ``python -m tests.bench.reading``.

A process of its own serves a spool, as an intake does; this one reads it as a task does, as far as
the batches that would go to Spark, and a third process serves the same batches by Flight alone.
Each repetition reads the same rows all ways, in changing order.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.flight as fl

from aqueduct_core.flight.authenticated import AuthenticatedServer, authorized, dial
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
from tests.bench.measuring import Bench, Effort, in_turns, ratios
from tests.bench.queries import work_folder
from tests.bench.sheet import Sheet

SHAPES = ((100, 1_000_000, 5_000), (1_000, 200_000, 1_000), (65_536, 4_000, 16))
"""Bytes of a row, rows, rows of a stored record."""
MAPPED, FLIGHT, UNSHAPED, BARE = "mapped", "Flight", "Flight, not shaped", "bare Flight"

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


class BareServer(AuthenticatedServer):
    """Batches in memory, by Flight with the same TLS."""

    def __init__(self, credentials: Credentials, batches: list[pa.RecordBatch]) -> None:
        self._table = pa.Table.from_batches(batches)
        super().__init__("127.0.0.1", 0, credentials)

    def answer(self, action: fl.Action) -> list[bytes]:
        return []

    def stream(self, ticket: fl.Ticket) -> fl.FlightDataStream:
        return fl.RecordBatchStream(self._table)


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
        stored = list(spool.read(0, 0, spool.ends()[0]))
        with (
            IntakeServer("127.0.0.1", 0, credentials, Served(spool)) as host,  # type: ignore[arg-type]
            BareServer(credentials, stored) as bare,
        ):
            pipe.send((host.port, bare.port, spool.id, spool.ends()[0]))
            while pipe.recv():
                pipe.send(cpu())


def mapped(client: IntakeClient, ticket: Ticket) -> Iterator[pa.RecordBatch]:
    return rows_of(client, ticket, AqueductRows.stored_schema, (EVENT,))


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(
    read: Read, client: IntakeClient, ticket: Ticket, pipe: Connection, *, shape: bool = True
) -> Measured:
    shaper = RowShaper(AqueductRows(), RowOptions(own=AqueductRead()))
    pipe.send(True)
    theirs, ours, began = pipe.recv(), cpu(), time.perf_counter()
    at = ticket.start
    for batch in read(client, ticket):
        if shape:
            for rows in shaper.rows(batch, 0, at):
                assert rows.num_rows
        at += batch.num_rows
    wall, own = time.perf_counter() - began, cpu() - ours
    assert at == ticket.end
    pipe.send(True)
    return Measured(wall, own, pipe.recv() - theirs)


def bare_read(port: int, credentials: Credentials, rows: int, pipe: Connection) -> Measured:
    with dial(f"127.0.0.1:{port}", credentials) as client:
        pipe.send(True)
        theirs, ours, began = pipe.recv(), cpu(), time.perf_counter()
        reader = client.do_get(fl.Ticket(b""), authorized(credentials, 120))
        read = sum(chunk.data.num_rows for chunk in reader)
        wall, own = time.perf_counter() - began, cpu() - ours
    assert read == rows
    pipe.send(True)
    return Measured(wall, own, pipe.recv() - theirs)


def block(directory: Path, size: int, rows: int, grain: int, effort: Effort, sheet: Sheet) -> None:
    """The figures of one size."""
    credentials = Credentials.fresh()
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(directory, size, rows, grain, credentials, there)
    )
    process.start()
    try:
        port, bare, spool, end = here.recv()
        ticket = Ticket(spool, 0, 0, end)
        clients = credentials.for_clients()
        with IntakeClient(f"127.0.0.1:{port}", clients) as client:
            ways: dict[str, Callable[[], Measured]] = {
                MAPPED: partial(measure, mapped, client, ticket, here),
                FLIGHT: partial(measure, IntakeClient.read, client, ticket, here),
                UNSHAPED: partial(measure, IntakeClient.read, client, ticket, here, shape=False),
                BARE: partial(bare_read, bare, clients, end, here),
            }
            for way in ways.values():
                way()  # warm
            runs = list(in_turns(ways, effort, sheet))
        here.send(False)
    finally:
        process.join(30)
        process.terminate()
    report(f"{size:,} B", size, rows, runs, sheet)


def report(title: str, size: int, rows: int, runs: list[dict[str, Measured]], sheet: Sheet) -> None:
    def speed(run: Measured) -> float:
        return 1 / run.wall

    for way in (MAPPED, FLIGHT, UNSHAPED, BARE):
        sheet.add(f"{title}: {way}", "rows/s", [rows / run[way].wall for run in runs])
    for way in (MAPPED, FLIGHT):
        used = [run[way].intake * 1e9 / (rows * size) for run in runs]
        sheet.add(f"{title}: {way}, the server's CPU", "s/GB", used)
    sheet.add(f"{title}: mapped over Flight", "x", ratios(runs, MAPPED, FLIGHT, speed), "mapped")
    less = ratios(runs, MAPPED, FLIGHT, lambda run: max(run.intake, 1e-4))
    sheet.add(f"{title}: mapped over Flight, the server's CPU", "x", less, "mapped-intake")
    sheet.add(f"{title}: Flight over bare Flight", "x", ratios(runs, UNSHAPED, BARE, speed), "G12")


def compare(effort: Effort, sheet: Sheet) -> None:
    with work_folder() as folder:
        for size, rows, grain in SHAPES:
            block(folder / str(size), size, rows, grain, effort, sheet)


BENCH = Bench("reading", "reading stored rows here: mapped segments against Flight", compare)

if __name__ == "__main__":
    BENCH.run()
