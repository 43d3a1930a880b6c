"""The ends of a real intake, in good order and not: what is acked, what is stored, what is told."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.producer import Producer
from aqueduct_core.errors import AqueductError, IntakeFailed
from aqueduct_core.flight.client import IntakeClient
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.transport.settings import LinkSettings
from tests.core.intake.lives import run, through_kills
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG, SOON, wait_until


async def attached(connection: Any, name: str) -> Sender:
    sender, receiver = channel(name=name)
    await connection.entrypoint.send(b"", attach=receiver)
    return sender


async def always(sender: Sender) -> None:
    sent = 0
    try:
        while True:
            await sender.send(b"%d" % sent)
            sent += 1
            if sent % 50 == 0:
                await asyncio.sleep(0)
    except AqueductError:
        pass


def test_fault_2_after_a_sigterm_under_load_stored_is_exactly_acked(site: Site) -> None:
    """Producers that keep no numbers: whatever they sent again after this would be a duplicate if
    it was stored, and lost if it was acked and not stored."""

    async def produce(intake: IntakeProcess, name: str, acked: dict[str, int]) -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            sender = await attached(connection, name)
            pump = asyncio.create_task(always(sender))
            while sender.statistics.acked < 300:
                await asyncio.sleep(0.01)
            acked[name] = -1
            await connection.wait_closed()
            await pump
            closed = connection.closed
            assert closed is not None
            assert (closed.code, closed.reason, closed.by_peer) == (0, "SIGTERM", True)
            acked[name] = sender.statistics.acked

    async def scenario(intake: IntakeProcess) -> dict[str, int]:
        acked: dict[str, int] = {}
        names = [f"c{number}" for number in range(4)]
        producers = [asyncio.create_task(produce(intake, name, acked)) for name in names]
        while len(acked) < len(names):
            await asyncio.sleep(0.01)
        begun = time.monotonic()
        intake.signal(signal.SIGTERM)
        await asyncio.gather(*producers)
        assert await asyncio.to_thread(intake.wait) == 0
        assert time.monotonic() - begun < SOON
        return acked

    with site.intake() as intake:
        acked = run(scenario(intake))
    with site.intake() as intake:
        rows = intake.rows()
        for name, count in acked.items():
            mine = [row["value"] for row in rows if row["channel"] == name]
            assert mine == [b"%d" % number for number in range(count)]
        events = intake.events()
    gone = [e for e in events if e["kind"] == "disconnected"]
    assert len(gone) == len(acked)
    assert {e["reason"] for e in gone} == {"closed by intake, code 0: SIGTERM"}
    stored = sum(e["counts"]["reliableStored"] for e in gone)
    assert stored == sum(acked.values()) + len(acked)  # and a message each on the entrypoint


def test_fault_2_a_stopped_producer_does_not_hold_the_end_up(site: Site) -> None:
    async def scenario(intake: IntakeProcess) -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            sender = await attached(connection, "c")
            await sender.send(b"a")
            await sender.flush()
            await sender.send(b"b")
            intake.signal(signal.SIGTERM)
            # this loop does not turn meanwhile, so nothing that the intake sends is acknowledged
            # and an end that waited for it would last as long as the silence that it allows
            assert intake.wait(LinkSettings().idle_timeout - 2.0) == 0

    with site.intake() as intake:
        run(scenario(intake))


def test_fault_1_a_finish_that_a_producer_saw_is_an_event_after_a_kill(site: Site) -> None:
    """The producer learns the finish only when its event is durable: kill -9 at once behind it."""

    async def produce(intake: IntakeProcess, turn: int) -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            sender = await attached(connection, f"c{turn}")
            await sender.send_many([b"%d" % number for number in range(20)])
            await sender.finish()
            intake.kill()

    for turn in range(5):
        with site.intake() as intake:
            run(produce(intake, turn))
    with site.intake() as intake:
        events, rows = intake.events(), intake.rows()
    for turn in range(5):
        mine = [e for e in events if e["channel"] == f"c{turn}"]
        assert [e["kind"] for e in mine] == ["opened", "finished"]
        assert mine[1]["counts"]["reliableStored"] == 20
        assert len([row for row in rows if row["channel"] == f"c{turn}"]) == 20
    connections = [e["connectionId"] for e in events if e["kind"] == "connected"]
    assert len(set(connections)) == len(connections) == 5
    assert [e["offset"] for e in events] == list(range(len(events)))


@pytest.mark.long
def test_fault_1_events_of_a_life_that_was_killed_are_a_prefix(site: Site) -> None:
    """Five kills under load: no event twice, each channel opened before it finished, every finish
    counts what its rows are."""

    async def scenario() -> None:
        async with through_kills(site, produce, step=5) as (intake, _, count):
            events, rows = (
                await asyncio.to_thread(intake.events),
                await asyncio.to_thread(intake.rows),
            )
        stored: dict[str, int] = {}
        for row in rows:
            stored[row["channel"]] = stored.get(row["channel"], 0) + 1
        lives: dict[tuple[str, int], list[str]] = {}
        for event in events:
            if event["channelId"] is not None and event["kind"] not in ("gap", "repeated"):
                key = event["connectionId"], event["channelId"]
                lives.setdefault(key, []).append(event["kind"])
            if event["kind"] == "finished" and event["channel"].startswith("c"):
                counts = event["counts"]
                assert counts["reliableStored"] + counts["deduped"] == counts["reliableSent"]
                assert stored[event["channel"]] == 10
        assert all(life in (["opened"], ["opened", "finished"]) for life in lives.values())
        named = [e["channel"] for e in events if e["kind"] == "finished"]
        assert {f"c{number}" for number in range(count)} <= set(named)

    async def produce(url: str, enough: asyncio.Event, finished: list[int]) -> None:
        async with Producer(
            url,
            producer="p",
            tls=site.client_tls,
            settings=LinkSettings(idle_timeout=1.0),
            first_wait=0.02,
            longest_wait=0.2,
        ) as producer:
            while not enough.is_set():
                sender = producer.channel(f"c{finished[0]}")
                for number in range(10):
                    await sender.send(b"%d" % number)
                await sender.finish()
                finished[0] += 1

    run(scenario())


def test_reads_under_way_end_with_the_intake_and_do_not_hold_it_up(site: Site) -> None:
    async def produce(url: str) -> None:
        async with connect(url, tls=site.client_tls) as connection:
            sender = await attached(connection, "c")
            for _ in range(100):  # far more than waits between a server and its readers
                await sender.send(bytes(1 << 20))
            await sender.finish()

    with site.intake(partitions=1) as intake, intake.client() as client, intake.client() as idle:
        run(produce(intake.url))
        status = client.status()
        ticket = Ticket(status.id, 0, 0, status.ends[0])
        active, stuck = client.read(ticket), idle.read(ticket)
        next(active)
        next(stuck)
        intake.signal(signal.SIGTERM)
        # A busy host may hand out all rows before it takes the signal.
        wait_until(lambda: is_ending(idle), LONG, "the beginning of the end")
        with pytest.raises(IntakeFailed, match="UNREACHABLE"):
            for _ in active:
                pass
        assert intake.wait() == 0
        del stuck


def is_ending(client: IntakeClient) -> bool:
    try:
        return client.status().draining
    except IntakeFailed:
        return True
