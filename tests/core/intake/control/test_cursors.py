"""Cursors of a real intake: held by one planner at a time, kept for the slowest, dropped."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.errors import DataLoss, IntakeFailed, InvalidOption, SpoolFailed
from aqueduct_core.flight.tickets import Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.spool import are_here, read_locations
from aqueduct_core.spool.lock import LOCK
from tests.support.intake_process import Site
from tests.support.waiting import LONG, wait_until


def send(site: Site, url: str, *payloads: bytes, name: str = "c") -> None:
    async def produce() -> None:
        async with connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name=name)
            await connection.entrypoint.send(b"", attach=receiver)
            for payload in payloads:
                await sender.send(payload)
            await sender.finish()

    asyncio.run(asyncio.wait_for(produce(), LONG))


def test_fault_32_a_second_planner_is_refused_until_the_hold_is_given_back(site: Site) -> None:
    with site.intake() as intake, intake.client() as client:
        client.hold("query", "first", seconds=30)
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
            client.hold("query", "second")
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
            client.commit("query", [0, 0], owner="second")
        with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
            client.drop_cursor("query")
        client.hold("other", "second")
        client.release("query", "first")
        client.hold("query", "second")


def test_fault_32_a_planner_that_was_taken_over_is_fenced(site: Site) -> None:
    with site.intake() as intake, intake.client() as client:
        client.hold("query", "first", seconds=0.2)

        def taken() -> bool:
            try:
                client.hold("query", "second", seconds=0.2)
            except SpoolFailed:
                return False
            return True

        wait_until(taken, LONG, "the end of the hold")
        for call in (
            lambda: client.hold("query", "first"),
            lambda: client.commit("query", [0, 0], owner="first"),
        ):
            with pytest.raises(SpoolFailed, match="taken over"):
                call()
        client.commit("query", [0, 0], owner="second")


def test_a_held_cursor_exists_from_then_on_and_survives(site: Site) -> None:
    with site.intake() as intake, intake.client() as client:
        client.hold("query", "me")
        client.hold("events", "me", view="events")
        status = client.status()
        assert status.committed == {"query": (0, 0)}
        assert status.events_committed == {"events": 0}
        with pytest.raises(InvalidOption, match="BAD_VALUE"):
            client.hold("events", "me", view="messages")
        with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
            client.commit("query", [0, 0], spool="another", owner="me")
        intake.kill()
    with site.intake() as intake, intake.client() as client:
        status = client.status()
        assert status.committed == {"query": (0, 0)}
        client.hold("query", "another")  # holds are in memory: who asks first has it
        client.release("query", "another")
        client.drop_cursor("query")
        assert client.status().committed == {}


def test_fault_36_rows_are_kept_for_the_slowest_cursor_and_a_drop_frees_them(site: Site) -> None:
    with (
        site.intake(partitions=1, spool_max_bytes=1 << 20, group_bytes=100_000) as intake,
        intake.client() as client,
    ):
        client.hold("slow", "a", seconds=60)
        client.hold("fast", "b", seconds=60)
        send(site, intake.url, *[bytes(100_000)] * 8)
        ends = client.status().ends
        client.commit("fast", ends, owner="b")
        assert client.status().starts == (0,)
        client.release("slow", "a")
        client.drop_cursor("slow")
        wait_until(lambda: client.status().starts[0] > 0, LONG, "the space of the dropped cursor")
        with pytest.raises(DataLoss, match="RANGE_GONE"):
            list(client.read(Ticket(client.status().id, 0, 0, 1)))


def test_what_rows_take_where_they_lie_and_when_they_came(site: Site) -> None:
    with site.intake(partitions=1) as intake, intake.client() as client:
        client.hold("query", "me", seconds=60)
        before = time.time_ns() // 1000
        send(site, intake.url, *[bytes(10_000)] * 50)
        middle = time.time_ns() // 1000
        (first,) = client.status().ends
        wait_until(lambda: time.time_ns() // 1000 > middle, LONG, "the next microsecond")
        send(site, intake.url, b"later")
        status = client.status()
        (end,) = status.ends
        assert client.locate(before) == (0,)
        assert client.locate(middle) == (first,)
        assert client.locate(time.time_ns() // 1000 + 1) == (end,)
        marks = client.sizes(0, 0, end, 100_000)
        assert marks[-1][0] == end
        assert 500_000 < marks[-1][1] < 700_000
        assert 3 <= len(marks) <= 8
        ticket = Ticket(status.id, 0, 3, end)
        pieces = client.locations(ticket)
        assert are_here(pieces)
        local = [row for rows in read_locations(pieces, ROWS.schema) for row in rows.to_pylist()]
        assert local == [row for rows in client.read(ticket) for row in rows.to_pylist()]
        assert status.oldest is not None
        assert 0.0 < status.oldest[0] < 30.0
        assert status.rates.rows > 0
        client.commit("query", status.ends, owner="me")
        assert client.status().oldest == (0.0,)


def test_fault_32_an_intake_that_was_stopped_keeps_its_spool(site: Site) -> None:
    """The lock belongs to the process, also while it is stopped; nothing to be fenced from."""
    with site.intake() as intake:
        intake.signal(signal.SIGSTOP)
        try:
            with pytest.raises(SpoolFailed, match=r"SPOOL\.LOCKED"), site.intake():
                pass
        finally:
            intake.signal(signal.SIGCONT)
        send(site, intake.url, b"still ours")
        assert intake.status().epoch == 1


def test_fault_32_an_intake_whose_lock_was_lost_neither_serves_nor_acks(site: Site) -> None:
    """A lock that somebody removed: the epoch in the directory tells the old intake that it is
    over. What it did not ack its producer keeps."""

    async def produce(url: str) -> int:
        async with connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="old")
            await connection.entrypoint.send(b"", attach=receiver)
            await sender.send(b"first")
            await sender.flush()
            old.signal(signal.SIGSTOP)
            (site.spool / LOCK).unlink()
            with site.intake() as new:
                old.signal(signal.SIGCONT)
                await sender.send(b"second")
                await connection.wait_closed()
                assert [row["value"] for row in new.rows() if row["channel"] == "old"] == [b"first"]
                assert new.status().epoch == 2
            return sender.statistics.acked

    with site.intake() as old, old.client() as client:
        status = client.status()
        assert asyncio.run(asyncio.wait_for(produce(old.url), LONG)) == 1
        with pytest.raises((SpoolFailed, IntakeFailed)):
            client.commit("query", status.ends)
        with pytest.raises((SpoolFailed, IntakeFailed)):
            client.status()
        assert old.wait() == 1
    assert "was opened by another owner" in site.log.read_text()
