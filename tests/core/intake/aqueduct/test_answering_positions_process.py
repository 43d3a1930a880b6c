"""Producers that come back to a real intake: each run goes on where the channel stands."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.outcomes import ConnectionLost, Misuse
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aio.producer_state import ProducerPositions
from aqueduct_core.aqueduct.conventions.headers import CODE_FENCED, channel_headers
from aqueduct_core.aqueduct.conventions.positions import ChannelPosition
from aqueduct_core.errors import InvalidOption, SinkFailed
from tests.support.intake_process import IntakeProcess, Site
from tests.support.ports import free_port
from tests.support.waiting import LONG


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, LONG))


def producing(intake: IntakeProcess, site: Site) -> Producer:
    return Producer(
        intake.url, producer="p", tls=site.client_tls, first_wait=0.02, longest_wait=0.1
    )


def stored(intake: IntakeProcess, channel: str = "readings") -> list[tuple[int, bytes]]:
    return [(row["messageNum"], row["value"]) for row in intake.rows() if row["channel"] == channel]


async def send(
    producer: Producer, *payloads: bytes, mode: str = "ordered", start: int | None = None
) -> tuple[int, int]:
    """The number of the first message, and how many were repeats."""
    async with producer:
        readings = producer.channel("readings", mode, start=start, repeats=start is not None)
        numbers = [await readings.send(payload) for payload in payloads]
        await readings.finish()
        assert producer.statistics.acked == len(payloads)
        assert producer.statistics.repeated == readings.statistics.repeated
        return numbers[0], readings.statistics.repeated


@pytest.mark.parametrize("mode", ["ordered", "unordered"])
def test_a_new_run_goes_on_also_behind_a_kill(site: Site, mode: str) -> None:
    with site.intake() as intake:
        assert run(send(producing(intake, site), b"a", b"b", mode=mode)) == (0, 0)
        intake.kill()
    with site.intake() as intake:
        assert run(send(producing(intake, site), b"c", mode=mode)) == (2, 0)
        assert sorted(stored(intake)) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_the_same_content_under_its_old_numbers_is_counted_as_repeated(site: Site) -> None:
    """Numbers 1 and 3 are missing, as an unordered channel may leave them."""
    with site.intake() as intake:
        for start in (0, 2, 4):
            run(send(producing(intake, site), b"%d" % start, start=start, mode="unordered"))
        again = [b"%d" % number for number in range(6)]
        first, repeated = run(send(producing(intake, site), *again, start=0, mode="unordered"))
        assert (first, repeated) == (0, 3)
        assert sorted(stored(intake)) == [(n, b"%d" % n) for n in range(6)]


def test_large_unreliable_messages_of_a_new_run_are_no_repeats(site: Site) -> None:
    """They travel on streams, and so have reliable numbers, which begin at 0 in each run."""
    with site.intake() as intake:
        for letter in (b"a", b"b"):
            run(send(producing(intake, site), letter * 60_000, mode="unreliable"))
        assert [value[:1] for _, value in stored(intake)] == [b"a", b"b"]
        assert intake.status().counters["deduped"] == 0
        # and each run has its row of the message that carried the channel
        assert [value for _, value in stored(intake, "0")] == [b"", b""]


def test_the_newer_of_two_runs_has_the_channel(site: Site) -> None:
    async def scenario(intake: IntakeProcess) -> None:
        old, new = producing(intake, site), producing(intake, site)
        await old.open()
        readings = old.channel("readings")
        await readings.send(b"old 0")
        await readings.flush()
        async with new:
            channel = new.channel("readings")
            assert await channel.send(b"new 1") == 1
            await channel.finish()
        with pytest.raises(SinkFailed, match=r"FENCED\] producer 'p' was put out of its place"):
            await readings.finish()
        assert old.statistics.reconnects == 0
        with pytest.raises(SinkFailed, match="FENCED"):
            await readings.send(b"old 1")
        await old.cancel()

    with site.intake() as intake:
        run(scenario(intake))
        assert stored(intake) == [(0, b"old 0"), (1, b"new 1")]
        counters = intake.status().counters
        assert (counters["fenced"], counters["accepted"]) == (1, 2)


def test_numbers_that_were_given_out_before_are_refused(site: Site) -> None:
    """Other content would be acked and dropped."""

    async def scenario(intake: IntakeProcess) -> None:
        await send(producing(intake, site), b"0", b"1", b"2")
        for start in (0, 2):
            again = producing(intake, site)
            await again.open()
            readings = again.channel("readings", start=start)
            refused = f"begins at {start}, but stands at 3: .*repeats=True"
            with pytest.raises(InvalidOption, match=refused):
                await readings.finish()
            await again.cancel()
        assert await send(producing(intake, site), b"3", start=3) == (3, 0)

    with site.intake() as intake:
        run(scenario(intake))
        assert stored(intake) == [(n, b"%d" % n) for n in range(4)]
        assert intake.status().counters["deduped"] == 0


def test_an_older_run_is_not_believed_by_an_intake_that_was_killed(site: Site) -> None:
    """It has numbers that the newer one gave out, and would be told that they are stored."""
    old = ProducerPositions("p")

    async def cut_off(intake: IntakeProcess) -> None:
        async with connect(
            intake.url, producer="p", tls=site.client_tls, headers=old.headers
        ) as connection:
            position = await old.ask(connection, "readings")
            assert position is not None
            assert position.next == 0

    async def back(intake: IntakeProcess) -> None:
        connection = await connect(
            intake.url, producer="p", tls=site.client_tls, headers=old.headers
        )
        readings, receiver = channel(
            "ordered", name="readings", headers=channel_headers(sequence_start=0)
        )
        await connection.entrypoint.send(b"", attach=receiver)
        await readings.send(b"old 0")
        with pytest.raises(ConnectionLost):
            await readings.finish()
        await connection.wait_closed()
        closed = connection.closed
        assert closed is not None
        assert (closed.by_peer, closed.code) == (True, CODE_FENCED)

    with site.intake() as intake:
        run(cut_off(intake))
        assert run(send(producing(intake, site), b"new 0", b"new 1")) == (0, 0)
        intake.kill()
    with site.intake() as intake:
        run(back(intake))
        assert stored(intake) == [(0, b"new 0"), (1, b"new 1")]


def test_a_run_outlives_an_intake_that_is_killed_before_its_first_message(site: Site) -> None:
    async def asked(producer: Producer, intake: IntakeProcess) -> None:
        await producer.open()
        position = await producer.position("readings")
        assert position is not None
        assert position.next == 1
        intake.kill()

    async def scenario() -> None:
        listen = f"127.0.0.1:{free_port()}"
        with site.intake(listen=listen) as intake:
            await send(producing(intake, site), b"an earlier run")
            producer = producing(intake, site)
            await asked(producer, intake)
        with site.intake(listen=listen) as intake:
            readings = producer.channel("readings")
            await readings.send(b"behind the kill")
            await readings.finish()
            await producer.close()
            assert stored(intake) == [(0, b"an earlier run"), (1, b"behind the kill")]

    asyncio.run(asyncio.wait_for(scenario(), LONG))


def test_a_program_may_look_where_a_channel_stands_and_decide(site: Site) -> None:
    async def scenario(intake: IntakeProcess) -> None:
        closed = producing(intake, site)
        with pytest.raises(Misuse, match="not opened"):
            await closed.position("readings")
        async with producing(intake, site) as first:
            assert await first.position("readings") == ChannelPosition(
                "readings", 0, None, False, ()
            )
            readings = first.channel("readings")
            with pytest.raises(Misuse, match="not known yet where"):
                readings.skip_to(5)
            await readings.send_many([b"0", b"1", b"2"])
            await readings.flush()
        async with producing(intake, site) as second:
            position = await second.position("readings")
            assert position == ChannelPosition("readings", 3, 0, False, ((0, 3),))
            with pytest.raises(Misuse, match="begins above"):
                second.channel("readings", run_start=0)
            with pytest.raises(Misuse, match="unreliable"):
                second.channel("lossy", "unreliable", start=0)
            rest = second.channel("readings", start=2, run_start=0, repeats=True)
            await rest.send_many([b"2", b"3"])
            await rest.finish()
            assert rest.statistics.repeated == 1
        async with producing(intake, site) as third:
            assert await third.position("readings") == ChannelPosition(
                "readings", 4, 0, True, ((0, 4),)
            )

    with site.intake() as intake:
        run(scenario(intake))
        assert stored(intake) == [(n, b"%d" % n) for n in range(4)]
