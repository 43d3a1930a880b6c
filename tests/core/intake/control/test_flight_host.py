from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aqueduct_core.errors import DataLoss, IntakeFailed, InvalidOption, SpoolFailed
from aqueduct_core.flight.activity import ChannelQuery
from aqueduct_core.flight.status import CursorReset, IntakeStatus
from aqueduct_core.flight.tickets import Commit, GiveUp, Hold, Reset, Ticket
from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.control.flight_host import IntakeCommands, SpoolHost, Watch
from aqueduct_core.intake.observing.activity import Activity
from aqueduct_core.intake.observing.traffic_table import ConnectionState
from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.fence import Fence
from aqueduct_core.intake.storage.pending import PendingEvent
from aqueduct_core.spool import Stretch
from tests.core.flight.hosted import MemoryHost
from tests.core.intake.bench import Bench, Peer, bench
from tests.support.waiting import LONG, SOON

NOW = 1_800_000_000_000_000

ALL = slice(2)


def test_a_watch_answers_at_once_when_there_is_more_or_all_is_different() -> None:
    watch = Watch([3, 5])
    begun = time.monotonic()
    watch.wait([3, 4], LONG, ALL)
    watch.wait([3], LONG, ALL)
    watch.wait([4], LONG, slice(1, 2))
    watch.end()
    watch.wait([3, 5], LONG, ALL)
    assert time.monotonic() - begun < SOON


def test_a_watch_wakes_all_who_wait_and_is_bounded() -> None:
    watch = Watch([0, 0])
    waiting = [threading.Thread(target=watch.wait, args=([0, 0], LONG, ALL)) for _ in range(4)]
    for thread in waiting:
        thread.start()
    watch.advance([0, 1])
    for thread in waiting:
        thread.join(LONG)
        assert not thread.is_alive()
    begun = time.monotonic()
    watch.wait([0, 1], 0.1, ALL)
    assert 0.05 < time.monotonic() - begun < SOON
    begun = time.monotonic()
    watch.wait([0], 0.1, slice(1))
    assert 0.05 < time.monotonic() - begun < SOON


class Loop:
    """Commands that note which thread they run in."""

    def __init__(self) -> None:
        self.threads: list[int] = []
        self.given_up: list[tuple[str, GiveUp]] = []

    def status(self) -> IntakeStatus:
        self.threads.append(threading.get_ident())
        return MemoryHost().status()

    def peers(self) -> list[ConnectionState]:
        self.threads.append(threading.get_ident())
        return [ConnectionState("s", "h:1", 2, 3, 4)]

    def commit(self, commit: Commit) -> None:
        raise DataLoss("OFFSET_AHEAD", "too far", "Wait")

    def hold(self, hold: Hold) -> None:
        raise SpoolFailed("CURSOR_IN_USE", "held", "Wait")

    def release(self, cursor: str, owner: str) -> None:
        self.threads.append(threading.get_ident())

    def drop_cursor(self, cursor: str, query: str | None) -> None:
        self.threads.append(threading.get_ident())

    def give_cursor(self, cursor: str) -> None:
        self.threads.append(threading.get_ident())

    def reset_cursor(self, order: Reset) -> CursorReset:
        self.threads.append(threading.get_ident())
        return CursorReset("r", order.to, 0.0)

    def record_skip(self, order: GiveUp, recorded: Callable[[], None]) -> None:
        self.threads.append(threading.get_ident())
        self.given_up.append(("recorded", order))
        recorded()

    def give_up(self, order: GiveUp) -> None:
        self.threads.append(threading.get_ident())
        self.given_up.append(("done", order))

    def renew(self, seconds: float | None) -> None:
        self.threads.append(threading.get_ident())

    def drain(self) -> None:
        self.threads.append(threading.get_ident())


def hosted(b: Bench, commands: IntakeCommands, loop: asyncio.AbstractEventLoop) -> SpoolHost:
    fence = Fence(b.spool)
    activity = Activity(lambda: 0.0, lambda: NOW)
    return SpoolHost(b.spool, ROWS, 0, commands, Watch([0]), fence, loop, activity, 1 << 30)


def test_commands_run_in_the_loop_and_their_errors_come_back(tmp_path: Path) -> None:
    commands = Loop()

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        with bench(tmp_path) as b:
            host = hosted(b, commands, loop)
            assert (await asyncio.to_thread(host.status)).epoch == 3
            await asyncio.to_thread(host.renew, None)
            await asyncio.to_thread(host.drain)
            await asyncio.to_thread(host.release, "c", "me")
            await asyncio.to_thread(host.drop_cursor, "c", None)
            await asyncio.to_thread(host.give_cursor, "c")
            assert (await asyncio.to_thread(host.reset_cursor, Reset("c", (4,)))).to == (4,)
            assert (await asyncio.to_thread(host.wait, [0], 0.01, "messages")).epoch == 3
            with pytest.raises(SpoolFailed, match="CURSOR_IN_USE"):
                await asyncio.to_thread(host.hold, Hold("c", "me"))
            with pytest.raises(DataLoss, match="OFFSET_AHEAD"):
                await asyncio.to_thread(host.commit, Commit("c", (1,)))
            with pytest.raises(DataLoss, match="SPOOL_REPLACED"):
                host.read(Ticket("another", 0, 0, 0))
            assert list(host.read(Ticket(b.spool.id, 0, 0, 0))) == []
            assert host.locate(0, "messages") == []
            assert host.locate(0, "events") == [0]

    asyncio.run(scenario())
    assert set(commands.threads) == {threading.get_ident()}
    assert len(commands.threads) == 8


def test_after_the_loop_has_ended_there_is_one_clear_error(tmp_path: Path) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    with bench(tmp_path) as b:
        host = hosted(b, Loop(), loop)
        with pytest.raises(IntakeFailed, match=r"UNREACHABLE.*has ended"):
            host.status()


def test_rows_are_given_up_once_and_behind_their_event(tmp_path: Path) -> None:
    commands = Loop()

    async def scenario() -> None:
        with bench(tmp_path) as b:
            peer = Peer()
            b.groups.record(PendingEvent(peer, LoggedEvent("connected", NOW, "s")))
            b.settle()
            host = hosted(b, commands, asyncio.get_running_loop())
            asked = Ticket(b.spool.id, b.spool.partitions - 1, 0, 1)
            order = GiveUp(asked, "a bad disk")
            with pytest.raises(InvalidOption, match=r"CONFLICT.*can be read"):
                await asyncio.to_thread(host.skip, order)
            assert commands.given_up == []
            [piece] = host.locations(asked)
            with Path(piece.path).open("r+b") as file:
                file.seek(piece.position + piece.length - 20)
                file.write(b"damage")
            await asyncio.to_thread(host.skip, order)
            assert commands.given_up == [("recorded", order), ("done", order)]
            assert host.stretches(asked) == [Stretch(0, 1, "stored")]
            b.spool.skip(asked.partition, 0, 1, order.reason)
            assert host.stretches(asked) == [Stretch(0, 1, "skipped")]
            await asyncio.to_thread(host.skip, order)
            assert len(commands.given_up) == 2

    asyncio.run(scenario())


def test_what_goes_on_is_looked_at_in_the_thread_that_asks(tmp_path: Path) -> None:
    commands = Loop()

    async def scenario() -> IntakeStatus:
        with bench(tmp_path) as b:
            host = hosted(b, commands, asyncio.get_running_loop())
            return await asyncio.to_thread(host.observe, ChannelQuery())

    found = asyncio.run(scenario())
    assert found.activity is not None
    assert [each.address for each in found.activity.peers] == ["h:1"]
    assert found.use is not None
    assert found.use.limit == 1 << 30
    assert len(commands.threads) == 2
