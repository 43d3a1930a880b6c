"""FAULTS 43: the same numbers with other content are an error of the sink, never a silent drop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest

from aqueduct_core.errors import SinkFailed
from aqueduct_spark.model.write_options import WriteOptions
from tests.core.intake.processes import Site
from tests.spark.sinking import Attempt, numbered, options, patiently
from tests.spark.test_sink_intake import once, values

pytestmark = pytest.mark.timeout(120)


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
    for lane in attempt.delivery._lanes.values():
        await lane.settled()
        lane.line.connection.abort()
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
@pytest.mark.parametrize("reliability", ["ordered", "unordered"])
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
        with pytest.raises(SinkFailed) as failed:
            await Attempt(wanted).run([whole.slice(0, 40), whole.slice(40)])
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
async def test_a_question_leaves_no_row(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        await Attempt(options(intake.url)).run([numbered(10)])
        entrypoint = [row for row in intake.rows(metadata=True) if row["channel"] == "0"]
        assert [len(row["attachments"]) for row in entrypoint] == [1]
        assert entrypoint[0]["value"] == b""
