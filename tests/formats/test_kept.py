"""What version 0.1 of November 2026 left is read, and carried on, by the code of today."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import SpoolReader
from tests.formats.kept import EVENT_COLUMNS, Kept, as_json, stored
from tests.formats.make import DIALLED, Life
from tests.spark.producing import INSECURE, numbered, produce
from tests.support.remote import RemoteThread, Script
from tests.support.standalone import Running, running
from tests.support.waiting import LONG

PARTITIONS = 2
NAMES = ["listening", "dialling"]


@pytest.fixture(params=NAMES)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Kept:
    return Kept(request.param, tmp_path)


def events(reader: SpoolReader) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    offset = reader.starts()[PARTITIONS]
    for batch in reader.read(PARTITIONS, offset, reader.ends()[PARTITIONS]):
        found += ROWS.expand_events(batch, PARTITIONS, offset).to_pylist()
        offset += batch.num_rows
    return [{name: event[name] for name in EVENT_COLUMNS} for event in found]


def test_its_rows_and_events_are_read_one_by_one(kept: Kept) -> None:
    with SpoolReader(kept.directory) as reader:
        rows = [row for partition in range(PARTITIONS) for row in stored(reader, partition)]
        told = events(reader)
        assert [each.damage for each in reader.verify()] == [[]] * len(reader.segments)
    assert rows == kept.rows()
    assert told[: len(kept.events)] == kept.events
    kinds = {event["kind"] for event in told}
    assert {"connected", "opened", "finished"} <= kinds


def test_its_cursor_belongs_to_the_query_of_the_checkpoint(kept: Kept) -> None:
    query = kept.last_offset()["query"]
    owners = json.loads((kept.directory / "owners.json").read_text())
    assert query in json.dumps(owners)
    with SpoolReader(kept.directory) as reader:
        [ends] = reader.cursors.values()
    assert all(end is not None for end in ends[:PARTITIONS])


def settings(kept: Kept) -> Path:
    """For an intake on its own, with what the query had given its intake."""
    config = kept.home / "intake.toml"
    config.write_text(
        f'spool = "{kept.directory}"\nkeys = "{kept.spool}"\npartitions = {PARTITIONS}\n'
        'listen = "127.0.0.1:0"\nflight = "127.0.0.1:0"\nretention = "10000d"\n'
        '[tls]\nselfSigned = ["localhost"]\n'
    )
    return config


def rows_of(intake: Running) -> list[dict[str, Any]]:
    with intake.client() as client:
        status = client.status()
        found: list[dict[str, Any]] = []
        for partition, (start, end) in enumerate(zip(status.starts, status.ends, strict=True)):
            at = start
            for batch in client.read(Ticket(status.id, partition, start, end)):
                found += as_json(ROWS.expand(batch, partition, at, True, False))
                at += batch.num_rows
    return found


async def go_on(endpoint: str) -> None:
    """The channel that was left open: what was stored of it comes again, and more."""
    async with connect(endpoint, tls=INSECURE, producer="tester") as connection:
        sender, receiver = channel("ordered", name="open", headers=[("sequence-start", "20")])
        await connection.entrypoint.send(b"", attach=receiver)
        await sender.send_many(numbered(20, 20))
        await sender.finish()


def test_an_intake_starts_on_it_and_goes_on(tmp_path: Path) -> None:
    """It has the rows, and knows of the producer what it has stored."""
    kept = Kept("listening", tmp_path)
    with running(settings(kept), "-J") as intake:
        assert rows_of(intake) == kept.rows()
        asyncio.run(asyncio.wait_for(go_on(f"aqueduct://{intake.ready['listen']}"), LONG))
        rows = rows_of(intake)
    numbers = sorted(row["value"] for row in rows if row["channel"] == "open")
    assert numbers == sorted(each.decode() for each in [*numbered(15), *numbered(20, 20)])


@pytest.mark.long
@pytest.mark.spark
def test_its_checkpoint_continues_where_it_listened(spark: SparkSession, tmp_path: Path) -> None:
    """The last batch is done again, as after a crash before its commit: the same rows."""
    kept = Kept("listening", tmp_path)
    last = forget_last_commit(kept)
    life = Life(spark, kept.home, {"listen": "127.0.0.1:0", "tls.selfSigned": "true"})
    try:
        life.await_batch(last)
        produce(f"aqueduct://{life.intake['listen']}", numbered(7), name="new")
        life.await_value("new", "message 6")
    finally:
        life.stop()
    assert life.batches[last] == kept.batches.get(last, [])
    new = [row for number, rows in life.batches.items() if number > last for row in rows]
    assert [row["value"] for row in new if row["channel"] == "new"] == [
        each.decode() for each in numbered(7)
    ]
    assert not {row["channel"] for row in new} - {"new", "0"}


@pytest.mark.long
@pytest.mark.spark
def test_its_checkpoint_continues_where_it_dialled(spark: SparkSession, tmp_path: Path) -> None:
    """Its intake was killed. What has finished is not asked for again, and nothing comes twice."""
    kept = Kept("dialling", tmp_path)
    last = forget_last_commit(kept)
    scripts = {"open": Script(messages=30, end="stay"), "done": Script(messages=10)}
    with RemoteThread(scripts, tmp_path, producer="remote", sequence_start=0, **DIALLED) as remote:
        options = {
            "endpoint": remote.url,
            "subscribe": "open,done",
            "tls.caFile": str(remote.ca_file),
            "tls.serverName": "localhost",
        }
        life = Life(spark, kept.home, options)
        try:
            life.await_batch(last)
            life.await_value("open", "open 29")
        finally:
            life.stop()
        assert [request.name for request in remote.requests] == ["open"]
    assert life.batches[last] == kept.batches.get(last, [])
    new = [row for number, rows in life.batches.items() if number > last for row in rows]
    assert [row["value"] for row in new] == [f"open {number}" for number in range(25, 30)]


def forget_last_commit(kept: Kept) -> int:
    """The number of the batch that is to be done again: the last one with rows."""
    last = max(number for number, rows in kept.batches.items() if rows)
    for kind in ("commits", "offsets"):
        for file in (kept.home / "checkpoint" / kind).iterdir():
            if int(file.name) > last or (kind == "commits" and int(file.name) == last):
                file.unlink()
    return last
