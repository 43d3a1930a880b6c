"""A listener within its memory: hostile peers hold what they can, and good ones go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.engine import Footprint
from aqueduct_core.engine.inputs import Input, StreamBytes
from aqueduct_core.transport import Driver, LinkSettings, ListenLimits
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.memory_budget import MemoryBudget
from tests.core.transport.ends import Server, dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.core.transport.test_datagram_server import dialling, seen
from tests.support.event_loop import eventually

MIB = 1 << 20
LIMIT = 4 * MIB
SMALL = LinkSettings(stream_window=256 * 1024, connection_window=256 * 1024)


class Hoard(Probe):
    """A server's engine that keeps what it gets, and says so. ``waits``: as messages that nobody
    has consumed; else it is of the peer's making."""

    waits = False
    kept = 0

    def handle(self, input: Input, now: float) -> None:
        super().handle(input, now)
        if isinstance(input, StreamBytes):
            self.kept += len(input.data)
            self.footprint = Footprint(self.kept, self.kept if self.waits else 0)

    def let_go(self) -> None:
        """All of it is consumed."""
        self.kept, self.footprint = 0, Footprint(0)
        self._actions += self.owed
        self.owed.clear()


def hoard(*, admits: bool = True, waits: bool = False) -> Callable[[], Probe]:
    def make() -> Probe:
        probe = Hoard(client=False, consumes=False, admits=admits)
        probe.waits = waits
        return probe

    return make


def budget(server: Server) -> MemoryBudget[Driver]:
    return server.listener._guard.budget


async def charged(server: Server) -> None:
    """All that was taken in is seen, and charged."""
    await seen(server)
    await eventually(lambda: not server.listener._guard._touched)


def consistent(server: Server) -> None:
    """What is charged is charged for those who are there."""
    found = budget(server)
    assert found.used == sum(map(found.holds, server.listener.drivers))


async def write(driver: Driver, probe: Probe, size: int) -> None:
    probe.write(probe.open(), bytes(size), end=False)
    driver.kick()
    await asyncio.sleep(0)


def test_connections_are_charged_from_their_first_packet_and_free_at_their_end() -> None:
    async def main() -> None:
        async with serving(limits=ListenLimits(retry="never")) as server:
            used = budget(server)
            half_open: list[object] = []
            for number in range(1, 11):
                link, first = dialling(server)
                half_open.append(link)
                server.listener.receive([(first, (f"192.0.2.{number}", 1))])
                await seen(server)
                await charged(server)
                assert used.used > number * 90_000
                consistent(server)
            good, probe = await dialled(server)
            await write(good, probe, 100_000)
            await eventually(
                lambda: bool(server.probes) and sum(server.probes[0].streams.values()) > 0
            )
            await charged(server)
            consistent(server)
            assert len(used) == 11
            await ended(good)
            for driver in list(server.listener.drivers):
                driver.abandon()
            await eventually(lambda: not server.listener.drivers)
            assert (used.used, len(used)) == (0, 0)

    asyncio.run(main())


def test_strangers_give_way_and_a_good_connection_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    """Half-open connections beyond the memory: the oldest of them go, the admitted one stays."""

    async def main() -> None:
        limits = ListenLimits(memory=2 * MIB, retry="never")
        async with serving(limits=limits) as server:
            good, probe = await dialled(server)
            await eventually(lambda: bool(server.probes))
            (mine,) = server.listener.drivers
            for number in range(50):
                _, first = dialling(server)
                host = f"192.0.2.{number}"
                server.listener.receive([(first, (host, 1))])
                await charged(server)
                assert budget(server).used <= 2 * MIB
            consistent(server)
            assert mine in server.listener.drivers
            counts = server.listener.memory_counts
            assert counts.evicted + server.listener.counts.refused >= 30
            await write(good, probe, 50_000)
            await eventually(lambda: sum(server.probes[0].streams.values()) == 50_000)
            late, _ = await dialled(server)
            await ended(good, late)
        ours = [each for each in caplog.records if each.name.startswith("aqueduct_core")]
        lines = [each for each in ours if "AQUEDUCT_CONNECT.NO_MEMORY" in each.message]
        assert 0 < len(lines) <= 10  # of a kind, in a period

    with caplog.at_level(logging.INFO):
        asyncio.run(main())


def test_one_that_hoards_is_told_why_and_the_others_are_not_touched() -> None:
    async def main() -> None:
        limits = ListenLimits(memory=LIMIT)
        settings = LinkSettings(connection_window=8 * MIB, stream_window=8 * MIB)
        async with serving(settings=settings, limits=limits, make=hoard()) as server:
            good, friend = await dialled(server)
            greedy, probe = await dialled(server)
            await write(good, friend, 10_000)
            await write(greedy, probe, 6 * MIB)
            await eventually(lambda: probe.lost is not None)
            lost = probe.lost
            assert lost is not None
            assert (lost.by_peer, lost.origin) == (True, CloseOrigin.TRANSPORT)
            assert lost.code == 2  # CONNECTION_REFUSED: it may come again
            assert lost.reason.startswith("[AQUEDUCT_CONNECT.NO_MEMORY] ")
            assert f"of {LIMIT} bytes" in lost.reason
            assert "limits.memory" in lost.reason
            await eventually(lambda: len(server.listener.drivers) == 1)
            consistent(server)
            assert budget(server).used < MIB
            await write(good, friend, 10_000)
            await eventually(lambda: sum(server.probes[0].streams.values()) == 20_000)
            again, _ = await dialled(server)
            await ended(good, greedy, again)

    asyncio.run(main())


def test_who_waits_for_us_is_held_back_and_goes_on_when_we_are_done() -> None:
    async def main() -> None:
        limits = ListenLimits(memory=LIMIT)
        # Both may have sent all of it before the first look: above the mark, below the limit.
        window = 7 * MIB // 4
        settings = LinkSettings(connection_window=window, stream_window=window)
        async with serving(settings=settings, limits=limits, make=hoard(waits=True)) as server:
            ends = [await dialled(server) for _ in range(2)]
            for driver, probe in ends:
                await write(driver, probe, 4 * MIB)
            counts = server.listener.memory_counts
            await eventually(lambda: counts.held_back > 0)
            await eventually(
                lambda: all(isinstance(p, Hoard) and p.kept > MIB for p in server.probes)
            )
            consistent(server)
            seen_most = 0
            while any(sum(probe.streams.values()) < 4 * MIB for probe in server.probes):
                assert counts.evicted == 0
                seen_most = max(seen_most, budget(server).used)
                for probe in server.probes:
                    assert isinstance(probe, Hoard)
                    if probe.owed:
                        probe.let_go()
                for driver in server.listener.drivers:
                    driver.kick()
                await asyncio.sleep(0.002)
            assert seen_most <= LIMIT + 2 * MIB
            assert all(probe.lost is None for _, probe in ends)
            await ended(*(driver for driver, _ in ends))

    asyncio.run(main())


def test_a_peer_that_gives_no_credit_has_a_bound_on_what_waits_for_it() -> None:
    """Its window is nearly nothing, and what it asks for is much."""

    async def main() -> None:
        limits = ListenLimits(outgoing=512 * 1024)
        deaf = LinkSettings(stream_window=1_200, connection_window=1_200)
        make = lambda: Probe(client=False, echoes=True)  # noqa: E731
        async with serving(limits=limits, make=make) as server:
            good, friend = await dialled(server)
            driver, probe = await dialled(server, Probe(client=True, consumes=False), settings=deaf)
            await eventually(lambda: len(server.probes) == 2)
            while probe.lost is None:
                await write(driver, probe, 20_000)
                await driver.writable(100_000)
                await asyncio.sleep(0.001)
            assert probe.lost.reason.startswith("[AQUEDUCT_CONNECT.NO_MEMORY] ")
            assert "wait here for this peer" in probe.lost.reason
            assert server.listener.memory_counts.evicted == 1
            await write(good, friend, 2_000)
            await eventually(lambda: sum(server.probes[0].streams.values()) == 2_000)
            await ended(good, driver)

    asyncio.run(main())


def test_nobody_new_comes_while_nothing_can_be_freed() -> None:
    async def main() -> None:
        limits = ListenLimits(memory=LIMIT, retry="never")
        async with serving(settings=SMALL, limits=limits, make=hoard(waits=True)) as server:
            good, _ = await dialled(server)
            await eventually(lambda: bool(server.probes))
            (held,) = server.probes
            assert isinstance(held, Hoard)
            held.footprint = Footprint(LIMIT - 200_000, LIMIT - 200_000)
            (mine,) = server.listener.drivers
            mine.kick()
            await eventually(lambda: budget(server).short)
            await eventually(lambda: server.listener.memory_counts.held_back == 1)
            address: Address = ("192.0.2.1", 1)
            _, first = dialling(server)
            server.listener.receive([(first, address)])
            await seen(server)
            assert server.listener.counts.refused == 1
            assert server.listener.drivers == {mine}
            held.let_go()
            mine.kick()
            await eventually(lambda: not budget(server).short)
            server.listener.receive([(first, address)])
            await seen(server)
            assert len(server.listener.drivers) == 2
            await ended(good)

    asyncio.run(main())


def test_who_is_closed_for_want_of_memory_takes_none_from_then_on() -> None:
    """Not even to say it again."""

    async def main() -> None:
        limits = ListenLimits(memory=LIMIT)
        settings = LinkSettings(connection_window=8 * MIB, stream_window=8 * MIB)
        async with serving(settings=settings, limits=limits, make=hoard()) as server:
            greedy, probe = await dialled(server)
            await write(greedy, probe, 6 * MIB)
            await eventually(lambda: probe.lost is not None)
            await eventually(lambda: not server.listener.drivers)
            assert budget(server).used == 0
            assert not budget(server).short
            await ended(greedy)

    asyncio.run(main())
