"""The sink and real intakes: rows once across attempts, fail-over and lost connections."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections import Counter
from pathlib import Path

import pytest

from aqueduct_core.errors import ConnectFailed, SinkFailed
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_spark.formats.aqueduct.sink import connection as sink_connection
from aqueduct_spark.formats.aqueduct.sink.connection import SILENT_SECONDS
from aqueduct_spark.write.pool import Pool
from tests.spark.write.sinking import Attempt, numbered, options, patiently
from tests.support.event_loop import eventually
from tests.support.intake_process import IntakeProcess, Site
from tests.support.ports import free_port


def values(*intakes: IntakeProcess) -> Counter[int]:
    """How often each row is stored."""
    rows = [row for intake in intakes for row in intake.rows() if row["channel"] != "0"]
    return Counter(int(row["value"]) for row in rows)


def once(count: int) -> Counter[int]:
    return Counter(range(count))


@patiently
async def test_attempts_of_a_task_and_batches_of_a_query(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        wanted = options(intake.url)
        first = Attempt(wanted)
        await first.delivery.open()
        await first.send(numbered(500, channels=7))
        await first.delivery.give_up()
        # two attempts at the same time, one of them slower, with few channels open
        fast, slow = Attempt(wanted), Attempt(wanted, max_open=3)
        batches = [numbered(300, start=start, channels=7) for start in (0, 300, 600)]
        await asyncio.gather(fast.run(batches), slow.run(batches))
        assert values(intake) == once(900)
        # the whole task once more, and then the next batch
        await Attempt(wanted).run(batches)
        await Attempt(wanted, batch=1).run([numbered(100, start=900, channels=7)])
        assert values(intake) == once(1_000)
        # an attempt of the batch before that nobody waits for any more
        await Attempt(wanted).run(batches)
        assert values(intake) == once(1_000)
        await Attempt(wanted, partition=1).run([numbered(100, start=1_000)])
        assert values(intake) == once(1_100)
        producers = {row["producer"] for row in intake.rows() if row["channel"] != "0"}
        assert producers == {"w/0", "w/1"}
        assert not any(row["headers"] for row in intake.rows(metadata=True))
        # numbers that jump from batch to batch are no holes
        kinds = event_kinds(intake)
        assert "opened" in kinds
        assert "gap" not in kinds


@patiently
async def test_a_restart_of_the_intake_forgets_nothing(tmp_path: Path) -> None:
    site = Site(tmp_path)
    with site.intake() as intake:
        await Attempt(options(intake.url), batch=4).run([numbered(50)])
    with site.intake() as intake:
        await Attempt(options(intake.url), batch=4).run([numbered(80)])
        with pytest.raises(SinkFailed, match="A later batch than 3"):
            await Attempt(options(intake.url), batch=3).run([numbered(10)])
        assert values(intake) == once(80)


@patiently
async def test_fault_27_rows_of_a_cancelled_attempt_stay_once(tmp_path: Path) -> None:
    """What was stored before the cancel is kept, and is not stored again by the next attempt;
    channels that were finished before cannot be cancelled."""
    with Site(tmp_path).intake() as intake:
        attempt = Attempt(options(intake.url), max_open=2)
        await attempt.delivery.open()
        await attempt.send(numbered(60, channels=6))
        # all of the early channels are finished by now, the last ones are cancelled
        await attempt.delivery.give_up()
        before = values(intake)
        assert before
        await Attempt(options(intake.url)).run([numbered(60, channels=6)])
        assert values(intake) == once(60)


@patiently
async def test_kinds_of_one_name_are_stored_each_once(tmp_path: Path) -> None:
    import pyarrow as pa

    with Site(tmp_path).intake() as intake:
        kinds = pa.array(["ordered", "unordered"] * 50)
        batch = numbered(100).append_column("reliability", kinds)
        for _ in range(2):
            await Attempt(options(intake.url)).run([batch])
        assert values(intake) == once(100)


@patiently
async def test_without_idempotence_each_attempt_counts(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        for _ in range(2):
            await Attempt(options(intake.url, idempotence="none")).run([numbered(10)])
        assert set(values(intake).values()) == {2}


def event_kinds(intake: IntakeProcess) -> set[str]:
    with intake.client() as client:
        status = client.status()
        ticket = Ticket(status.id, len(status.ends), *status.events)
        return {
            row["kind"]
            for batch in client.read(ticket)
            for row in ROWS.expand_events(batch, ticket.partition, status.events[0]).to_pylist()
        }


@contextlib.contextmanager
def two(tmp_path: Path) -> object:
    sites = [Site(tmp_path / name) for name in ("one", "two") if not (tmp_path / name).mkdir()]
    with sites[0].intake() as one, sites[1].intake() as other:
        yield one, other


@patiently
async def test_rows_are_spread_by_channel(tmp_path: Path) -> None:
    with two(tmp_path) as (one, other):  # type: ignore[attr-defined]
        wanted = options(one.url, other.url)
        counts = await Attempt(wanted).run([numbered(500, channels=20)])
        assert len(counts.endpoints) == 2
        assert values(one, other) == once(500)
        assert min(len(values(one)), len(values(other))) > 100
        names = [{row["channel"] for row in i.rows()} - {"0"} for i in (one, other)]
        assert not names[0] & names[1]


@patiently
async def test_an_address_that_is_down(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        nobody = f"aqueduct://127.0.0.1:{free_port()}"
        with pytest.raises(ConnectFailed, match="endpointPolicy=failover") as failed:
            await Attempt(options(intake.url, nobody)).run([numbered(10)])
        assert nobody.removeprefix("aqueduct://") in failed.value.what
        assert not values(intake)  # refused before any row was sent
        for urls in ((intake.url, nobody), (nobody, intake.url)):
            wanted = options(*urls, endpointPolicy="failover")
            await Attempt(wanted).run([numbered(100, channels=9)])
        assert values(intake) == once(100)
        alone = options(nobody, endpointPolicy="failover")
        with pytest.raises(ConnectFailed):
            await Attempt(alone).run([numbered(1)])


@patiently
async def test_an_address_that_dies_in_mid_attempt(tmp_path: Path) -> None:
    """With failover the next one gets what was not acked: nothing is lost, and neither intake
    has a row twice."""
    with two(tmp_path) as (one, other):  # type: ignore[attr-defined]
        wanted = options(one.url, other.url, endpointPolicy="failover")
        attempt = Attempt(wanted)
        await attempt.delivery.open()
        await attempt.send(numbered(2_000, channels=10))
        await eventually(lambda: bool(values(other)))
        await attempt.send(numbered(2_000, start=2_000, channels=10))
        other.kill()
        counts = await attempt.run([numbered(500, start=4_000, channels=10)])
        assert counts.endpoints == (one.listen,)
        assert counts.sent == counts.acked == 4_500
    survivors = values_on_disk(tmp_path)
    assert set(survivors["one"]) | set(survivors["two"]) == set(range(4_500))
    for name in ("one", "two"):
        assert set(survivors[name].values()) == {1}


@patiently
async def test_a_connection_that_is_lost_with_one_address(tmp_path: Path) -> None:
    """With failover the sink comes back to the only address; otherwise the attempt fails."""
    site, port = Site(tmp_path), free_port()
    wanted = options(f"aqueduct://127.0.0.1:{port}", endpointPolicy="failover")
    with site.intake(listen=f"127.0.0.1:{port}") as intake:
        attempt = Attempt(wanted)
        await attempt.delivery.open()
        await attempt.send(numbered(300, channels=3))
        hash_only = Attempt(options(intake.url), writer="other")
        await hash_only.delivery.open()
        intake.signal(signal.SIGTERM)
        await asyncio.to_thread(intake.wait)
        with pytest.raises(SinkFailed) as failed:
            await hash_only.run([numbered(10)])
        assert failed.value.subclass == "CONNECTION_LOST"
    with site.intake(listen=f"127.0.0.1:{port}") as intake:
        await attempt.run([numbered(300, start=300, channels=3)])
        assert values(intake) == once(600)


@patiently
async def test_pooled_connections_serve_partitions_and_batches(tmp_path: Path) -> None:
    with Site(tmp_path).intake() as intake:
        pool, wanted = Pool(), options(intake.url, streaming=True)
        for batch in range(5):
            for partition in range(3):
                start = (batch * 3 + partition) * 20
                rows = [numbered(20, start=start, channels=4)]
                for _ in range(2):  # each task once more
                    await Attempt(wanted, pool=pool, batch=batch, partition=partition).run(rows)
        assert pool.idle == 1
        assert values(intake) == once(300)
        await pool.close()


def values_on_disk(folder: Path) -> dict[str, Counter[int]]:
    """What the spools of both sites hold."""
    found = {}
    for name in ("one", "two"):
        with Site(folder / name).intake() as intake:
            found[name] = values(intake)
    return found


@patiently
async def test_fault_39_an_intake_killed_between_two_batches_and_in_mid_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No task succeeds before its rows are stored; one that fails is done again, as in Spark."""
    # The dead one is replaced under its port, so that silence alone tells of it.
    monkeypatch.setattr(sink_connection, "SILENT_SECONDS", SILENT_SECONDS)
    site, listen, pool = Site(tmp_path), f"127.0.0.1:{free_port()}", Pool()
    wanted = options(f"aqueduct://{listen}", streaming=True)
    count = 12_000

    async def task(batch: int) -> None:
        rows = [numbered(count // 2, start=batch * count + half * count // 2) for half in (0, 1)]
        while True:
            try:
                await Attempt(wanted, pool=pool, batch=batch).run(rows)
                return
            except (ConnectFailed, SinkFailed):
                await asyncio.sleep(0.1)

    with site.intake(listen=listen) as intake:
        await task(0)
        assert pool.idle == 1
        intake.kill()
    with site.intake(listen=listen) as intake:
        await task(1)
        assert values(intake) == once(2 * count)
        writing = asyncio.ensure_future(task(2))
        await eventually(lambda: sum(intake.status().ends) > 2 * count)
        intake.kill()
    with site.intake(listen=listen) as intake:
        await writing
        assert values(intake) == once(3 * count)
        await pool.close()
