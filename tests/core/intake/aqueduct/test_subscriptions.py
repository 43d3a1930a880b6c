"""Trees of channels at a real intake: a parent that is lost, a cancel that races."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import Sender, channel
from aqueduct_core.aio.outcomes import Misuse
from aqueduct_core.errors import ChannelEnded
from tests.core.intake.lives import run
from tests.support.intake_process import IntakeProcess, Site
from tests.support.rules import rule
from tests.support.waiting import LONG, wait_until


@rule("AQ-LOST-4")
def test_fault_26_a_lost_parent_loses_its_tree_once_and_the_sink_learns_it(site: Site) -> None:
    """The spool is full, so the datagram that carries the tree is nacked."""
    depth = 5

    async def scenario(intake: IntakeProcess) -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            filler, receiver = channel(name="filler")
            lossy, lossy_receiver = channel("unreliable", name="lossy")
            await connection.entrypoint.send(b"", attach=[receiver, lossy_receiver])
            await filler.send(bytes(1_200_000))
            await filler.flush()
            assert await asyncio.to_thread(lambda: intake.status().full)
            chain = [channel(name=f"level {level}") for level in range(depth)]
            await lossy.send(b"carrier", attach=chain[0][1])
            for (sender, _), (_, below) in pairwise(chain):
                await sender.send(b"link", attach=below)
            for sender, _ in chain:
                with pytest.raises(ChannelEnded, match="LOST"):
                    await finished(sender)
            with intake.client() as client:
                status = client.status()
                client.commit("query", status.ends)
                client.commit("events", status.events[1:], view="events")
                await asyncio.to_thread(
                    wait_until, lambda: not client.status().full, LONG, "room for more"
                )
            await filler.send(b"after")
            await filler.finish()

    async def finished(sender: Sender) -> None:
        await sender.send(b"row")
        await sender.finish()

    with site.intake(spool_max_bytes=1 << 20, partitions=1) as intake:
        run(scenario(intake))
        events = intake.events()
        lost = [e["channel"] for e in events if e["kind"] == "lost"]
        assert sorted(lost) == [f"level {level}" for level in range(depth)]
        assert {row["value"] for row in intake.rows()} == {b"after"}
        (nacked,) = [e for e in events if e["kind"] == "nacked"]
        assert (nacked["channel"], nacked["first"], nacked["last"]) == ("lossy", 0, 0)
        assert intake.status().channels == 0


def test_fault_27_cancels_at_any_moment_leave_one_end_and_a_prefix(site: Site) -> None:
    """Cancels fall before, between and behind group commits and finishes."""

    async def one(url: str, number: int) -> None:
        async with connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name=f"c{number}")
            await connection.entrypoint.send(b"", attach=receiver)
            for value in range(50):
                await sender.send(b"%d" % value)
                if value == number:
                    await sender.flush()
            finishing = asyncio.create_task(sender.finish()) if number % 2 else None
            await asyncio.sleep(number % 5 * 0.01)
            try:
                await sender.cancel()
            except (ChannelEnded, Misuse):
                pass  # it has finished, or is about to: there is no way back
            if finishing is not None:
                await asyncio.wait([finishing])
                finishing.exception()
            await connection.entrypoint.flush()

    async def scenario(url: str) -> None:
        for first in range(0, 40, 8):
            await asyncio.gather(*(one(url, number) for number in range(first, first + 8)))

    with site.intake() as intake:
        run(scenario(intake.url))
        wait_until(lambda: intake.status().channels == 0, LONG, "the end of all channels")
        wait_until(
            lambda: sum(e["kind"] == "disconnected" for e in intake.events()) == 40, LONG, "it"
        )
        events, rows = intake.events(), intake.rows()
        seen = set()
        for number in range(40):
            name = f"c{number}"
            values = [row["value"] for row in rows if row["channel"] == name]
            (opened, end) = [e for e in events if e["channel"] == name]
            assert opened["kind"] == "opened"
            seen.add(end["kind"])
            assert values == [b"%d" % value for value in range(len(values))]
            assert end["counts"]["reliableStored"] == len(values)
            assert len(values) > number  # what was acked stays
            if end["kind"] == "finished":
                assert len(values) == 50
            else:
                assert end["kind"] == "cancelled"
        assert "cancelled" in seen
