"""Readers on the same host: the same rows as over Flight, whatever happens to the files."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from aqueduct_core.errors import DataLoss, IntakeFailed, SpoolFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.credentials import Credentials
from aqueduct_core.flight.server import IntakeServer
from aqueduct_core.flight.status import IntakeStatus
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.storage.rows import EVENT
from aqueduct_core.spool import Spool, Stretch
from aqueduct_core.spool.locations import Location
from aqueduct_spark.read import local
from aqueduct_spark.read.local import is_this_host, rows_of
from tests.spark.spools import open_spool, rows, store

CREDENTIALS = Credentials.fresh()


class Served:
    """As much of an intake as readers meet: rows and where they lie. Counts what is asked."""

    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.schema = spool.schema
        self.reads: list[Ticket] = []
        self.asked: list[Ticket] = []
        self.lie: dict[str, Any] = {}

    def status(self) -> IntakeStatus:
        spool = self.spool
        return IntakeStatus(
            id=spool.id,
            epoch=spool.epoch,
            ends=tuple(spool.ends()[:2]),
            starts=tuple(spool.starts()[:2]),
            committed={},
            listen="",
            flight="",
            pid=os.getpid(),
        )

    def read(self, ticket: Ticket) -> Iterator[pa.RecordBatch]:
        self.reads.append(ticket)
        return self.spool.read(ticket.partition, ticket.start, ticket.end)

    def locations(self, ticket: Ticket) -> list[Location]:
        self.asked.append(ticket)
        found = self.spool.locations(ticket.partition, ticket.start, ticket.end)
        return [piece._replace(**self.lie) for piece in found]

    def stretches(self, ticket: Ticket) -> list[Stretch]:
        return self.spool.stretches(ticket.partition, ticket.start, ticket.end)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """1,000 rows in log 0 and 500 in log 1, in records of 10, over several segments."""
    with open_spool(tmp_path / "intake-0", segment_bytes=100_000) as spool:
        for first in range(0, 1_000, 10):
            batches = [(0, rows(first, 10, size=500))]
            if first < 500:
                batches.append((1, rows(first, 10, partition=1, size=500)))
            store(spool, batches)
        yield Served(spool)


@pytest.fixture
def client(served: Served) -> Iterator[IntakeClient]:
    host = IntakeServer("127.0.0.1", 0, CREDENTIALS, served)  # type: ignore[arg-type]
    with host, IntakeClient(f"127.0.0.1:{host.port}", CREDENTIALS.for_clients()) as client:
        yield client


def ticket(served: Served, partition: int = 0, start: int = 0, end: int = 1_000) -> Ticket:
    return Ticket(served.spool.id, partition, start, end)


def table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """What the batches hold, whatever their grain."""
    return pa.Table.from_batches(
        [pa.RecordBatch.from_pylist(b.to_pylist(), schema=PLAIN) for b in batches], schema=PLAIN
    )


PLAIN = pa.schema([pa.field("value", pa.binary()), pa.field("messageNum", pa.int64())])


def test_no_row_goes_over_flight(served: Served, client: IntakeClient) -> None:
    mapped = list(rows_of(client, ticket(served), ROWS.schema))
    assert served.reads == []
    flight = list(client.read(ticket(served)))
    assert [b.num_rows for b in mapped] == [b.num_rows for b in flight]
    assert table(mapped) == table(flight)
    for one, other in zip(mapped, flight, strict=True):
        assert one.to_pylist() == other.to_pylist()


def test_any_range_is_the_same(served: Served, client: IntakeClient) -> None:
    chance = random.Random(3)
    for _ in range(60):
        partition = chance.choice([0, 1])
        start, end = sorted(chance.sample(range(1_001 if partition == 0 else 501), 2))
        asked = ticket(served, partition, start, end)
        assert table(list(rows_of(client, asked, ROWS.schema))) == table(list(client.read(asked)))
    assert list(rows_of(client, ticket(served, 0, 7, 7), ROWS.schema)) == []


def test_columns_that_nobody_looks_at_are_left_out(served: Served, client: IntakeClient) -> None:
    asked = ticket(served, 0, 3, 997)
    whole = list(rows_of(client, asked, ROWS.schema))
    bare = list(rows_of(client, asked, ROWS.schema, (EVENT,)))
    assert served.reads == []
    without = [row | {EVENT: None} for batch in bare for row in batch.to_pylist()]
    assert without == [row for batch in whole for row in batch.to_pylist()]
    assert EVENT not in bare[0].schema.names


def test_places_are_asked_for_in_turns(
    served: Served, client: IntakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "FIRST_SPAN", 64)
    monkeypatch.setattr(local, "LEAST_SPAN", 16)
    monkeypatch.setattr(local, "LOCATIONS", 4)
    mapped = list(rows_of(client, ticket(served, 0, 3, 997), ROWS.schema))
    assert served.reads == []
    assert 10 < len(served.asked) < 60
    assert table(mapped) == table(list(client.read(ticket(served, 0, 3, 997))))


def test_an_intake_that_does_not_say_where(
    served: Served, client: IntakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(asked: Ticket) -> list[Location]:
        raise IntakeFailed("UNREACHABLE", "did not answer within 10 s", "Wait")

    monkeypatch.setattr(client, "locations", silent)
    assert sum(b.num_rows for b in rows_of(client, ticket(served), ROWS.schema)) == 1_000
    assert served.reads == [ticket(served)]


def test_another_file_of_that_name(served: Served, client: IntakeClient) -> None:
    lies: list[dict[str, Any]] = [
        {"inode": 1},
        {"device": 1},
        {"path": "/nowhere/segment-000000000001.arrows"},
    ]
    for lie in lies:
        served.lie, served.reads = lie, []
        assert sum(b.num_rows for b in rows_of(client, ticket(served), ROWS.schema)) == 1_000
        assert served.reads == [ticket(served)]


def test_an_intake_elsewhere(
    served: Served, client: IntakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "is_this_host", lambda address: False)
    assert sum(b.num_rows for b in rows_of(client, ticket(served), ROWS.schema)) == 1_000
    assert served.reads == [ticket(served)]
    assert is_this_host("127.0.0.1:1")
    assert is_this_host("localhost:1")
    assert is_this_host("[::1]:1")
    assert not is_this_host("192.0.2.1:1")
    assert not is_this_host("no.such.host.invalid:1")


def test_files_that_go_after_they_were_named(
    served: Served, client: IntakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trimmed between the answer and the reading: the intake says what is gone."""
    named = client.locations

    def then_trimmed(asked: Ticket) -> list[Location]:
        found = named(asked)
        served.spool.commit("query", [1_000, 500, None])
        while served.spool.trim():
            pass
        return found

    monkeypatch.setattr(client, "locations", then_trimmed)
    with pytest.raises(DataLoss) as lost:
        list(rows_of(client, ticket(served), ROWS.schema))
    assert lost.value.subclass == "RANGE_GONE"


def test_what_was_read_outlives_the_file(served: Served, client: IntakeClient) -> None:
    kept = list(rows_of(client, ticket(served), ROWS.schema))
    served.spool.commit("query", [1_000, 500, None])
    while served.spool.trim():
        pass
    assert table(kept).column("messageNum").to_pylist() == list(range(1_000))


def test_damage_is_told_by_the_intake(served: Served, client: IntakeClient) -> None:
    place = served.spool.locations(0, 200, 210)[0]
    descriptor = os.open(place.path, os.O_RDWR)
    try:
        at = place.position + place.length - 100
        byte = os.pread(descriptor, 1, at)[0]
        os.pwrite(descriptor, bytes([byte ^ 1]), at)
    finally:
        os.close(descriptor)
    found: list[pa.RecordBatch] = []
    with pytest.raises(SpoolFailed) as failed:
        found.extend(rows_of(client, ticket(served), ROWS.schema))
    assert failed.value.subclass == "CORRUPT"
    assert "offsets 200 to 210" in failed.value.what
    assert sum(b.num_rows for b in found) <= 200
    # It was asked for what follows the rows that were whole.
    assert structs.replace(served.reads[0], start=0) == ticket(served)
