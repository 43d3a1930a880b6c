"""Rows that say where they come from are stored once, whatever became of tasks and batches."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from aqueduct_core.aqueduct.conventions.dedupe import Deduplicator, channel_key, message_number
from aqueduct_core.aqueduct.conventions.headers import MAX_SEQUENCE
from aqueduct_core.errors import SchemaMismatch, SinkFailed
from aqueduct_spark.formats.aqueduct.sink.splitting import RowPlan, Splitter
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.batches import RowBatch
from tests.spark.formats.aqueduct.sink.test_attempt import values
from tests.spark.plain_peer import Peer, listening
from tests.spark.write.sinking import Attempt, options, patiently
from tests.support.event_loop import eventually, server_tls
from tests.support.intake_process import Site

SPOOLS = ("0b9c9c8e-spool-a", "7d11f0aa-spool-b")


def row(number: int) -> tuple[str, int, int]:
    """Where row ``number`` lies: two spools of three partitions, offsets rising in each."""
    return SPOOLS[number % 2], number // 2 % 3, number // 6


def batch(numbers: list[int], *, channels: int = 2, reliability: str = "ordered") -> pa.RecordBatch:
    places = [row(number) for number in numbers]
    return pa.record_batch(
        {
            "value": [b"%d" % number for number in numbers],
            "channel": [f"c{number // 6 % channels}" for number in numbers],
            "reliability": [reliability] * len(numbers),
            "spool": [spool for spool, _, _ in places],
            "partition": pa.array([partition for _, partition, _ in places], pa.int32()),
            "offset": pa.array([offset for _, _, offset in places], pa.int64()),
        }
    )


def by_source(url: str, *, streaming: bool = False, **given: str) -> WriteOptions:
    return options(url, streaming=streaming, idempotence="source", **given)


@pytest.mark.parametrize(
    ("reliability", "every"),
    [("ordered", 1), pytest.param("ordered", 7, marks=pytest.mark.long), ("unordered", 7)],
)
@patiently
async def test_tasks_of_any_cut_in_any_order(tmp_path: Path, reliability: str, every: int) -> None:
    """The same rows in other tasks, batches and orders, also while an attempt goes on, and across
    a kill of the intake; a filter leaves holes everywhere."""
    order = random.Random(7)
    kept = list(range(0, 3_000 * every, every))
    site = Site(tmp_path)
    with site.intake() as intake:
        wanted = by_source(intake.url)
        first = Attempt(wanted, max_open=5)
        await first.delivery.open()
        await first.send(batch(kept[: len(kept) // 2], reliability=reliability))
        await first.delivery.give_up()
        shuffled = order.sample(kept, len(kept))
        half = len(kept) // 2
        await asyncio.gather(
            Attempt(wanted, batch=1, partition=4).run(
                [batch(shuffled[:half], reliability=reliability)]
            ),
            Attempt(wanted, batch=1, partition=5).run([batch(kept, reliability=reliability)]),
        )
        assert values(intake) == Counter(kept)
        intake.kill()
    with site.intake() as intake:
        wanted = by_source(intake.url)
        again = order.sample(kept, len(kept))
        for partition in range(3):
            task = Attempt(wanted, batch=9, partition=partition)
            await task.run([batch(again[partition::3], reliability=reliability)])
        assert values(intake) == Counter(kept)
        assert intake.status().counters["dedupe_window_exceeded"] == 0
        found = [r for r in intake.rows(metadata=True) if r["channel"] != "0"]
        assert {r["producer"] for r in found} == {
            f"w/{spool}/{partition}" for spool in SPOOLS for partition in range(3)
        }
        for r in found:
            spool, partition, offset = row(int(r["value"]))
            assert (r["producer"], r["messageNum"]) == (f"w/{spool}/{partition}", offset)
        assert not any(r["headers"] for r in found)


@pytest.mark.parametrize("streaming", [True, False])
@patiently
async def test_fault_43_a_source_row_that_became_two(tmp_path: Path, streaming: bool) -> None:
    """As behind an explode and a shuffle: each of the two in a task of its own."""
    with Site(tmp_path).intake() as intake:
        wanted, rows = by_source(intake.url, streaming=streaming), batch(list(range(60)))
        counts = await Attempt(wanted, partition=0).run([rows])
        assert (counts.acked, counts.repeated, counts.unchecked) == (60, 0, 0)
        other = rows.set_column(0, "value", pa.array([b"second half of %d" % n for n in range(60)]))
        with pytest.raises(SinkFailed) as failed:
            await Attempt(wanted, partition=1).run([other.slice(24, 6)])
        assert failed.value.subclass == "NOT_REPEATABLE"
        assert "channel 'c0' of 'w/0b9c9c8e-spool-a/0'" in failed.value.what
        assert "number 4 has other content" in failed.value.what
        assert "leave 'idempotence' out" in failed.value.remedy
        assert values(intake) == Counter(range(60))


@patiently
async def test_repeats_of_source_rows_are_counted_and_what_was_not_compared(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake() as intake:
        first = Attempt(by_source(intake.url))
        assert (await first.run([batch(list(range(60)))])).repeated == 0
        counts = await Attempt(by_source(intake.url), partition=7).run([batch(list(range(40, 70)))])
        assert (counts.acked, counts.repeated, counts.unchecked) == (30, 20, 0)
        intake.kill()
    with site.intake() as intake:
        again = batch(list(range(60, 75)), channels=1)
        counts = await Attempt(by_source(intake.url, channel="c0")).run([again])
        assert (counts.acked, counts.repeated) == (15, 6)
        assert counts.unchecked == 6, "of six sources a row is stored, and nobody knows which"


@pytest.mark.parametrize("reliability", ["ordered", "unordered"])
@patiently
async def test_headers_of_rows_say_nothing_of_their_place(tmp_path: Path, reliability: str) -> None:
    """Whoever sent a row to the source chose its headers: they must not say that it is another row,
    for that one would be taken for a repeat when it comes."""
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    evil = {0: b"3", 24: b"30", 36: b"x"}

    def headed(numbers: list[int]) -> pa.RecordBatch:
        own = [[{"key": "source-offset", "value": evil[n]}] if n in evil else None for n in numbers]
        rows = batch(numbers, channels=1, reliability=reliability)
        return rows.append_column("headers", pa.array(own, kind))

    site = Site(tmp_path)
    with site.intake() as intake:
        await Attempt(by_source(intake.url)).run([headed(list(range(0, 60, 6)))])
        intake.kill()
    with site.intake() as intake:
        counts = await Attempt(by_source(intake.url)).run([headed(list(range(60, 240, 6)))])
        found = [r for r in intake.rows(metadata=True) if r["channel"] != "0"]
        assert sorted((r["messageNum"], int(r["value"])) for r in found) == [
            (n, 6 * n) for n in range(40)
        ]
        assert (counts.repeated, counts.unchecked) == (0, 0)
        assert {int(r["value"]): r["headers"][0]["value"] for r in found if r["headers"]} == evil


@patiently
async def test_a_writer_is_not_another_and_unreliable_rows_go_as_they_are(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        for writer in ("one", "two"):
            await Attempt(by_source(intake.url), writer=writer).run([batch(list(range(60)))])
        assert values(intake) == Counter([*range(60)] * 2)
        lossy = batch(list(range(60)), reliability="unreliable")
        counts = await Attempt(by_source(intake.url), writer="one").run([lossy])
        assert counts.sent == 60


@patiently
async def test_a_receiver_that_knows_no_sources_can_tell_by_each_message() -> None:
    peer = Peer()
    async with listening(peer, server_tls()):
        for partition in (0, 1):
            await Attempt(by_source(peer.url), partition=partition).run([batch([0, 6, 12, 30])])
        await eventually(lambda: all(heard.end == "Finished" for heard in peer.heard))
    connection = peer.connections[0].headers
    deduplicator, new = Deduplicator(), []
    for heard in peer.heard:
        key = channel_key(connection, heard.headers)
        for number, (payload, headers) in enumerate(heard.messages):
            if deduplicator.is_new(key, message_number(heard.headers, number, headers)):
                new.append(payload)
    assert sorted(new) == [b"0", b"12", b"30", b"6"]


def split(piece: pa.RecordBatch) -> list[RowBatch]:
    splitter = Splitter(RowPlan(None, "ordered", "json", 1000, by_source=True))
    return [portion for portions in splitter.split(piece) for portion in portions]


def test_the_columns_are_no_payload() -> None:
    [portion] = split(batch([0]))
    assert portion.payloads == [b'{"value":"MA=="}']
    assert portion.destination.source == f"{SPOOLS[0]}/0"


def test_two_rows_of_one_place_are_refused() -> None:
    with pytest.raises(SinkFailed, match=r"ROW_REPEATED.*'c0'.*offsets 0 to 0"):
        split(batch([0, 6, 0], channels=1))
    assert len(split(batch([0, 6, 3], channels=1))) == 2


@pytest.mark.parametrize(
    ("column", "values", "kind", "subclass"),
    [
        ("spool", [None], pa.string(), "REQUIRED"),
        ("spool", ["a b\n"], pa.string(), "COLUMN_TYPE"),
        ("partition", [-1], pa.int32(), "COLUMN_TYPE"),
        ("offset", [-7], pa.int64(), "COLUMN_TYPE"),
        ("offset", [MAX_SEQUENCE], pa.int64(), "COLUMN_TYPE"),
        ("offset", [None], pa.int64(), "REQUIRED"),
    ],
)
def test_values_that_are_no_place(
    column: str, values: list[object], kind: pa.DataType, subclass: str
) -> None:
    piece = batch([0])
    at = piece.schema.get_field_index(column)
    with pytest.raises(SchemaMismatch) as refused:
        split(piece.set_column(at, column, pa.array(values, kind)))
    assert refused.value.subclass == subclass
