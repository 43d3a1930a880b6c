"""FAULTS 43: the same numbers with other content are an error of the sink, never a silent drop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest

from aqueduct_core.aqueduct.conventions.dedupe.questions import MAX_CHANNELS
from aqueduct_core.errors import SinkFailed
from aqueduct_spark.formats.aqueduct.sink.attempt import AqueductSink
from aqueduct_spark.formats.aqueduct.sink.attempt_connection import AqueductAttempt
from aqueduct_spark.options.write import WriteOptions
from aqueduct_spark.write.pool import Pool
from aqueduct_spark.write.sink import SentCounts, WriteIdentity
from aqueduct_spark.write.task import write_rows
from aqueduct_spark.write.worker import Worker
from tests.spark.formats.aqueduct.sink.test_attempt import once, two, values
from tests.spark.plain_peer import Peer, listening
from tests.spark.write.sinking import Attempt, numbered, options, patiently
from tests.support.event_loop import in_loop, server_tls
from tests.support.intake_process import Site


def rows(*texts: bytes, channel: str = "c") -> pa.RecordBatch:
    return pa.record_batch({"value": list(texts), "channel": [channel] * len(texts)})


def swapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The two halves in the other order, as tasks of a shuffle find blocks."""
    half = batch.num_rows // 2
    return pa.Table.from_batches([batch.slice(half), batch.slice(0, half)]).combine_chunks(
    ).to_batches()[0]  # fmt: skip


async def dies(wanted: WriteOptions, batch: pa.RecordBatch) -> None:
    """An attempt that has all of ``batch`` stored and dies before its end."""
    attempt = Attempt(wanted)
    await attempt.delivery.open()
    await attempt.send(batch)
    await attempt.delivery._settle()
    for connection in attempt.delivery._connections.values():
        assert isinstance(connection, AqueductAttempt)
        connection.pooled.connection.abort()
    await attempt.delivery.give_up()


OTHERS: dict[str, Callable[[pa.RecordBatch], pa.RecordBatch]] = {
    "swapped": swapped,
    "fewer": lambda batch: batch.slice(0, batch.num_rows - 7),
    "none of the last channel": lambda batch: batch.filter(
        pa.compute.not_equal(batch["channel"], "c4")
    ),
    "other payloads": lambda batch: numbered(batch.num_rows, start=5_000, channels=5),
    "one other payload": lambda batch: batch.set_column(
        0, "value", pa.array([*batch["value"].to_pylist()[:-1], b"other"])
    ),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize(
    "reliability", ["ordered", pytest.param("unordered", marks=pytest.mark.long)]
)
@patiently
async def test_fault_43_a_second_attempt_with_other_rows(
    tmp_path: Path, other: str, reliability: str
) -> None:
    site = Site(tmp_path)
    with site.intake() as intake:
        wanted = options(intake.url, reliability=reliability)
        await dies(wanted, numbered(400, channels=5))
        before = values(intake)
        assert before == once(400)
        with pytest.raises(SinkFailed) as failed:
            await Attempt(wanted).run([OTHERS[other](numbered(400, channels=5))])
        assert failed.value.subclass == "NOT_REPEATABLE"
        assert "batch 0, partition 0 of writer 'w'" in failed.value.what
        # the same rows still pass, and what was recognised is counted
        counts = await Attempt(wanted).run([numbered(400, channels=5)])
        assert (counts.acked, counts.repeated) == (400, 400)


@patiently
async def test_fault_43_after_the_intake_was_killed(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake() as intake:
        await dies(options(intake.url), numbered(300, channels=3))
        intake.kill()
    with site.intake() as intake:
        wanted = options(intake.url)
        with pytest.raises(SinkFailed) as failed:
            await Attempt(wanted).run([swapped(numbered(300, channels=3))])
        assert failed.value.subclass == "NOT_REPEATABLE"
        counts = await Attempt(wanted).run([numbered(300, channels=3)])
        assert counts.repeated == 300
        assert values(intake) == once(300)


@patiently
async def test_fault_43_arrow_batches_of_another_size(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        wanted = options(intake.url, payloadFormat="arrow", channel="a")
        whole = pa.record_batch({"n": list(range(100))})
        await Attempt(wanted).run([whole.slice(0, 50), whole.slice(50)])
        counts = await Attempt(wanted).run([whole.slice(0, 40), whole.slice(40)])
        assert (counts.acked, counts.repeated) == (1, 1)
        with pytest.raises(SinkFailed) as failed:
            await Attempt(wanted).run([whole.slice(1), whole.slice(0, 1)])
        assert failed.value.subclass == "NOT_REPEATABLE"


@patiently
async def test_speculative_attempts_with_the_same_rows_both_pass(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        wanted = options(intake.url)
        batches = [numbered(300, start=start, channels=7) for start in (0, 300, 600)]
        fast, slow = Attempt(wanted), Attempt(wanted, max_open=3)
        counts = await asyncio.gather(fast.run(batches), slow.run(batches))
        assert [each.acked for each in counts] == [900, 900]
        assert sum(each.repeated for each in counts) == 900
        assert values(intake) == once(900)


@patiently
async def test_rows_with_headers_are_compared_with_them(tmp_path: Path) -> None:
    def batch(value: bytes) -> pa.RecordBatch:
        pairs = [[{"key": "k", "value": value}] if row % 3 else None for row in range(60)]
        return numbered(60, channels=2).append_column("headers", pa.array(pairs))

    with Site(tmp_path).intake() as intake:
        for idempotence in ("auto", "headers"):
            wanted = options(intake.url, idempotence=idempotence)
            for repeated in (0, 60):
                counts = await Attempt(wanted, writer=idempotence).run([batch(b"1")])
                assert (counts.repeated, counts.unchecked) == (repeated, 0)
            with pytest.raises(SinkFailed) as failed:
                await Attempt(wanted, writer=idempotence).run([batch(b"2")])
            assert failed.value.subclass == "NOT_REPEATABLE"


@patiently
async def test_more_channels_than_one_question_names(tmp_path: Path) -> None:
    count = 2 * MAX_CHANNELS + 7
    with Site(tmp_path).intake() as intake:
        wanted, pool = options(intake.url, streaming=True), Pool()
        for repeated in (0, count):
            counts = await Attempt(wanted, pool=pool, max_open=100).run(
                [numbered(count, channels=count)]
            )
            assert (counts.repeated, counts.unchecked) == (repeated, 0)
        with pytest.raises(SinkFailed) as failed:
            await Attempt(wanted, pool=pool).run([numbered(count - 1, channels=count)])
        assert f"{count - 1} channels" in failed.value.what
        assert f"rows of {count} channels" in failed.value.what
        await pool.close()


@patiently
async def test_rows_that_moved_to_another_address_are_not_compared(tmp_path: Path) -> None:
    sites = [Site(tmp_path / name) for name in "ab" if not (tmp_path / name).mkdir()]
    with sites[0].intake() as one, sites[1].intake() as other:
        wanted = options(one.url, other.url, endpointPolicy="failover")
        attempt = Attempt(wanted)
        await attempt.delivery.open()
        await attempt.send(numbered(200, channels=8))
        other.kill()
        counts = await attempt.run([numbered(200, start=200, channels=8)])
        assert counts.endpoints == (one.listen,)
        assert 0 < counts.unchecked < 8
        # the other one comes back, and has rows of channels that this attempt sends elsewhere
        counts = await Attempt(options(one.url)).run([numbered(400, channels=8)])
        assert counts.unchecked == 0
        with sites[1].intake() as again:
            wanted = options(one.url, again.url, endpointPolicy="failover")
            counts = await Attempt(wanted).run([numbered(400, channels=8)])
            assert counts.unchecked == 0


@in_loop
async def test_receivers_that_say_nothing_of_what_they_store() -> None:
    """No word that it answers; a word, and no answer."""
    for headers in ((), (("checksums", "1"),)):
        peer = Peer()
        async with listening(peer, server_tls(), headers=(("deduplicates", "sequence"), *headers)):
            counts = await Attempt(options(peer.url)).run([numbered(20, channels=4)])
        assert (counts.acked, counts.repeated, counts.unchecked) == (20, 0, 4)


@patiently
async def test_a_question_leaves_no_row(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        await Attempt(options(intake.url)).run([numbered(10)])
        entrypoint = [row for row in intake.rows(metadata=True) if row["channel"] == "0"]
        assert [len(row["attachments"]) for row in entrypoint] == [1]
        assert entrypoint[0]["value"] == b""


@patiently
async def test_fault_43_nothing_any_more_for_one_of_two_addresses(tmp_path: Path) -> None:
    with two(tmp_path) as (one, other):  # type: ignore[attr-defined]
        wanted = options(one.url, other.url)
        await dies(wanted, numbered(20, channels=20))
        names = {row["channel"] for row in one.rows()}
        batch = numbered(20, channels=20)
        kept = batch.filter(pa.array([name.as_py() in names for name in batch["channel"]]))
        assert 0 < kept.num_rows < 20
        with pytest.raises(SinkFailed, match="rows for 0 channels") as failed:
            await Attempt(wanted).run([kept])
        assert failed.value.subclass == "NOT_REPEATABLE"


@patiently
async def test_a_stream_that_begins_again_below_what_its_writer_has_sent(tmp_path: Path) -> None:
    """Another checkpoint, or another query, under the same writerId: numbers begin again at 0."""
    site = Site(tmp_path)
    with site.intake() as intake:
        wanted = options(intake.url, streaming=True, writerId="w")
        for batch in (6, 7, 7):
            await Attempt(wanted, batch=batch, rising=True).run(
                [numbered(50, start=50 * batch, channels=3)]
            )
        stored = values(intake)
        intake.kill()
    with site.intake() as intake:
        wanted = options(intake.url, streaming=True, writerId="w")
        with pytest.raises(SinkFailed, match="writerId of its own") as failed:
            await Attempt(wanted, rising=True).run([numbered(50, start=1_000, channels=3)])
        assert failed.value.subclass == "NOT_REPEATABLE"
        assert values(intake) == stored


@patiently
async def test_a_batch_below_one_that_is_stored(tmp_path: Path) -> None:
    """Its rows cannot be stored any more: the same ones pass, and nothing else in silence."""

    def batch(number: int) -> pa.RecordBatch:
        return numbered(50, start=50 * number, channels=3)

    site = Site(tmp_path)
    with site.intake() as intake:
        for number in (3, 4, 6, 7, 8):
            await Attempt(options(intake.url), batch=number).run([batch(number)])
        stored = values(intake)
        intake.kill()
    with site.intake() as intake:
        wanted = options(intake.url)
        counts = await Attempt(wanted, batch=6).run([batch(6)])
        assert (counts.repeated, counts.unchecked) == (50, 0)
        others = {
            6: (batch(5), "other content than what is stored"),
            7: (batch(7).slice(0, 40), r"this attempt has 1\d rows"),
            8: (batch(8).filter(pa.compute.not_equal(batch(8)["channel"], "c2")), "of 3 channels"),
            4: (batch(4).filter(pa.compute.not_equal(batch(4)["channel"], "c2")), "of 3 channels"),
            5: (batch(5), "cannot be compared any more"),
            2: (batch(2), "cannot be compared any more"),
        }
        for number, (other, text) in others.items():
            with pytest.raises(SinkFailed, match=text) as failed:
                await Attempt(wanted, batch=number).run([other])
            assert failed.value.subclass == "NOT_REPEATABLE"
        assert "supersededBatch=trust" in failed.value.remedy
        trusting = options(intake.url, supersededBatch="trust")
        counts = await Attempt(trusting, batch=2).run([batch(2)])
        assert (counts.acked, counts.repeated, counts.unchecked) == (50, 50, 3)
        with pytest.raises(SinkFailed, match="other content than what is stored"):
            await Attempt(trusting, batch=7).run([batch(5)])
        # a channel that was in a later batch only does not count among those of an earlier one
        more = Attempt(wanted, batch=9)
        await more.run([numbered(4, channels=4)])
        counts = await Attempt(wanted, batch=8).run([batch(8)])
        assert (counts.repeated, counts.unchecked) == (50, 0)
        assert values(intake) == stored + Counter(range(4))


@patiently
async def test_fault_43_no_rows_any_more(tmp_path: Path) -> None:
    """A task without rows asks where an attempt of it has failed before."""
    worker = Worker()

    def write(url: str, *, again: bool, partition: int = 0) -> SentCounts:
        identity = WriteIdentity("w", 0, partition)
        return write_rows(
            iter([]),
            AqueductSink(),
            options(url),
            token=None,
            identity=identity,
            again=again,
            worker=worker,
        )

    with Site(tmp_path).intake() as intake:
        await dies(options(intake.url), numbered(20, channels=2))
        with pytest.raises(SinkFailed, match=r"rows for 0 channels.*rows of 2 channels") as failed:
            await asyncio.to_thread(write, intake.url, again=True)
        assert failed.value.subclass == "NOT_REPEATABLE"
        counts = await asyncio.to_thread(write, intake.url, again=True, partition=1)
        assert counts.sent == 0
        assert counts.endpoints == (intake.listen,)
    # the first attempt dials nobody
    assert await asyncio.to_thread(write, intake.url, again=False) == SentCounts.none(0)
    worker.close()
