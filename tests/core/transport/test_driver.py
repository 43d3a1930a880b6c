"""The driver: kicks, back-pressure, faults of engines and of those who take the events."""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any, cast

import pytest

from aqueduct_core.aqueduct.engine import AqueductEngine, Mode, Side
from aqueduct_core.engine.actions import Action, SendDatagram, WriteStream
from aqueduct_core.engine.engine import Engine
from aqueduct_core.engine.inputs import (
    DatagramFate,
    DatagramOutcome,
    Input,
    LinkLost,
    LinkReady,
    LinkRoom,
)
from aqueduct_core.transport import Driver, LinkSettings, dial
from aqueduct_core.transport.driver import JOIN
from aqueduct_core.transport.link import Address, Link
from tests.core.transport.ends import ALPN, dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.support.event_loop import client_tls, eventually, server_tls
from tests.support.virtual_loop import let_happen, run_virtually
from tests.support.waiting import LONG

WINDOW = 64 * 1024
SMALL = LinkSettings(stream_window=WINDOW, connection_window=WINDOW)


def test_writable_holds_a_writer_back_until_the_peer_consumes() -> None:
    async def main() -> None:
        make = lambda: Probe(client=False, consumes=False)  # noqa: E731
        async with serving(make=make, settings=SMALL) as server:
            driver, probe = await dialled(server)
            stream = probe.open()
            probe.write(stream, bytes(4 * WINDOW))
            driver.kick()
            waiting = asyncio.create_task(driver.writable(2 * WINDOW))
            given_up = asyncio.create_task(driver.writable(1))
            await eventually(lambda: [p.received for p in server.probes] == [WINDOW])
            await let_happen()
            assert server.probes[0].received == WINDOW
            assert driver.unsent == 3 * WINDOW
            assert not waiting.done()
            given_up.cancel()
            await asyncio.gather(given_up, return_exceptions=True)
            theirs = server.probes[0]
            theirs.consumes = True
            theirs.consume_owed()
            (accepted,) = server.listener.drivers
            accepted.kick()
            await asyncio.wait_for(waiting, LONG)
            assert driver.unsent < 2 * WINDOW
            await eventually(lambda: theirs.received == 4 * WINDOW)
            await ended(driver)

    run_virtually(main())


def test_writable_returns_when_the_link_is_lost() -> None:
    async def main() -> None:
        make = lambda: Probe(client=False, consumes=False)  # noqa: E731
        async with serving(make=make, settings=SMALL) as server:
            driver, probe = await dialled(server)
            probe.write(probe.open(), bytes(4 * WINDOW))
            driver.kick()
            waiting = asyncio.create_task(driver.writable(1))
            await eventually(lambda: [p.received for p in server.probes] == [WINDOW])
            await server.listener.close()
            await asyncio.wait_for(waiting, LONG)
            await driver.wait_closed()
            assert probe.lost is not None
            assert server.probes[0].received == WINDOW

    run_virtually(main())


def test_a_program_that_fails_on_events_loses_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)

    def fail(driver: Driver, events: list[object]) -> None:
        raise RuntimeError("bad events")

    async def main() -> None:
        async with serving() as server:
            driver, _ = await dialled(server, on_events=fail)
            await driver.wait_closed()
            assert driver.lost == LinkLost(10, "internal error", by_peer=False)

    run_virtually(main())
    assert "bad events" in caplog.text


def test_an_engine_that_cannot_be_made_fails_the_dial() -> None:
    def make(now: float) -> Probe:
        raise LookupError("no engine today")

    async def main() -> None:
        async with serving() as server:
            with pytest.raises(LookupError, match="today"):
                await dial(
                    "127.0.0.1",
                    server.port,
                    alpn=ALPN,
                    settings=LinkSettings(),
                    tls=client_tls(),
                    make_engine=make,
                    on_events=lambda driver, events: None,
                )
            await eventually(lambda: not server.listener.drivers)

    run_virtually(main())


def test_an_action_that_cannot_be_carried_out_is_the_fault_of_the_engine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Wrong(Probe):
        def actions(self) -> list[Action]:
            return [WriteStream(3, b"a stream of the peer", False)] if self.ready else []

    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server, Wrong(client=True))
            await driver.wait_closed()
            assert probe.lost == LinkLost(10, "internal error", by_peer=False)

    run_virtually(main())
    assert "stream 3 is none that we may write" in caplog.text


def test_kicks_are_gathered_into_one_turn() -> None:
    class Counting(Probe):
        asked = 0

        def actions(self) -> list[Action]:
            self.asked += 1
            return super().actions()

    async def main() -> None:
        async with serving() as server:
            probe = Counting(client=True)
            driver, _ = await dialled(server, probe)
            await eventually(lambda: bool(server.probes))
            await let_happen()
            before = probe.asked
            for _ in range(100):
                driver.kick()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert probe.asked - before <= 3
            await ended(driver)

    run_virtually(main())


def test_a_driver_shows_its_peer_and_no_more() -> None:
    async def main() -> None:
        async with serving() as server:
            driver, _ = await dialled(server)
            assert repr(driver) == f"<Driver 127.0.0.1:{server.port} open>"
            assert driver.peer_certificate_fingerprint == server_tls().fingerprint
            assert driver.statistics.datagrams_sent > 0
            await ended(driver)
            assert repr(driver) == f"<Driver 127.0.0.1:{server.port} closed>"

    run_virtually(main())


class Narrow:
    """A link that sends what it has at once and wants to hold one datagram."""

    timer: float | None = None
    awaits: float | None = None
    unsent = 0
    ready = True
    early = False
    backlogged = False
    lost: LinkLost | None = None
    closed = False

    def __init__(self) -> None:
        self._inputs: list[Input] = [LinkRoom(1), LinkReady(1_000)]
        self._actions: list[SendDatagram] = []
        self.too_large_at: list[tuple[int, float]] = []

    def too_large(self, size: int, now: float) -> None:
        self.too_large_at.append((size, now))

    def inputs(self) -> list[Input]:
        inputs, self._inputs = self._inputs, []
        return inputs

    def apply(self, actions: list[Action], now: float) -> None:
        self._actions += [action for action in actions if isinstance(action, SendDatagram)]

    def transmit(self, now: float) -> list[tuple[bytes, Address]]:
        actions, self._actions = self._actions, []
        self._inputs += [DatagramOutcome(action.token, DatagramFate.LEFT) for action in actions]
        return [(action.data, ("127.0.0.1", 1)) for action in actions]


def on_narrow(engine: Engine[Any], sent: list[tuple[bytes, Address]]) -> Driver:
    return Driver(
        cast(Link, Narrow()), ("127.0.0.1", 1),
        make_engine=lambda driver, now: (engine, lambda driver, events: None),
        send=sent.extend, on_turn=lambda driver: None,
    )  # fmt: skip


def test_what_has_left_makes_room_for_more_in_the_same_turn() -> None:
    async def main() -> None:
        sent: list[tuple[bytes, Address]] = []
        engine = AqueductEngine(Side.CLIENT)
        driver = on_narrow(engine, sent)
        driver.turn((), 0.0)
        for i in range(5):
            engine.send(0, bytes([i]), now=0.0, mode=Mode.UNRELIABLE)
        driver.turn((), 0.0)
        assert [data[-1] for data, _ in sent] == [0, 1, 2, 3, 4]

    run_virtually(main())


def test_the_link_learns_what_the_interface_does_not_take() -> None:
    async def main() -> None:
        link = Narrow()
        engine = AqueductEngine(Side.CLIENT)
        driver = Driver(
            cast(Link, link), ("127.0.0.1", 1),
            make_engine=lambda driver, now: (engine, lambda driver, events: None),
            send=lambda datagrams: 9_000 if len(datagrams[0][0]) > 500 else None,
            on_turn=lambda driver: None,
        )  # fmt: skip
        driver.turn((), 0.0)
        engine.send(0, b"small", now=0.0, mode=Mode.UNRELIABLE)
        driver.turn((), 0.0)
        assert link.too_large_at == []
        engine.send(0, bytes(600), now=0.0, mode=Mode.UNRELIABLE)
        driver.turn((), 2.0)
        assert link.too_large_at == [(9_000, 2.0)]

    run_virtually(main())


class Turns:
    """When a driver had its turns, in virtual seconds since ``start``."""

    def __init__(self) -> None:
        self.probe = Told(self)
        self.times: list[float] = []
        self.driver = on_narrow(self.probe, [])
        self.driver.turn((), self.driver.now())
        self.start = self.driver.now()
        self.times.clear()

    async def until(self, seconds: float) -> None:
        await let_happen(self.start + seconds - self.driver.now())


class Told(Probe):
    """Notes its turns; has an event in the next one when it is given one."""

    def __init__(self, turns: Turns) -> None:
        super().__init__(client=True)
        self.news: list[Any] = []
        self._turns = turns

    def events(self) -> list[Any]:
        turns = self._turns
        turns.times.append(round(turns.driver.now() - getattr(turns, "start", 0.0), 4))
        news, self.news = self.news, []
        return news


def test_the_first_turn_that_is_asked_for_after_quiet_is_had_at_once() -> None:
    async def main() -> None:
        turns = Turns()
        for at in (1.0, 1.0 + JOIN, 2.0):
            await turns.until(at)
            turns.driver.kick()
        await turns.until(3.0)
        assert turns.times == pytest.approx([1.0, 1.0 + JOIN, 2.0], abs=JOIN / 10)

    run_virtually(main())


def test_turns_asked_for_in_quick_succession_are_joined() -> None:
    async def main() -> None:
        turns = Turns()
        for i in range(100):
            await turns.until(1.0 + i * JOIN / 10)
            turns.driver.kick()
        await turns.until(3.0)
        assert len(turns.times) in (10, 11)
        assert min(after - before for before, after in pairwise(turns.times)) >= JOIN * 0.9
        assert turns.times[0] == pytest.approx(1.0, abs=JOIN / 10)

    run_virtually(main())


def test_nobody_waits_for_what_is_urgent_or_may_be_an_answer() -> None:
    async def main() -> None:
        turns = Turns()
        await turns.until(1.0)
        turns.driver.kick()
        await turns.until(1.0 + JOIN / 4)
        turns.driver.kick()
        turns.driver.kick(urgent=True)
        await turns.until(1.0 + JOIN / 2)
        turns.probe.news.append("something came")
        turns.driver.turn((), turns.driver.now())
        turns.driver.kick()
        await turns.until(2.0)
        expected = [1.0, 1.0 + JOIN / 4, 1.0 + JOIN / 2, 1.0 + JOIN / 2]
        assert turns.times == pytest.approx(expected, abs=JOIN / 10)

    run_virtually(main())


def test_what_the_peer_can_wait_for_goes_with_the_next_turn_or_has_one_shortly() -> None:
    async def main() -> None:
        turns = Turns()
        await turns.until(1.0)
        turns.driver.kick_later()
        await turns.until(1.0 + JOIN / 2)
        turns.driver.kick()
        await turns.until(2.0)
        turns.driver.kick_later()
        turns.driver.kick_later()
        await turns.until(3.0)
        assert turns.times == pytest.approx([1.0 + JOIN / 2, 2.0 + JOIN], abs=JOIN / 10)

    run_virtually(main())


def test_a_turn_for_another_reason_does_what_was_asked_for() -> None:
    async def main() -> None:
        turns = Turns()
        await turns.until(1.0)
        turns.driver.kick()
        turns.driver.turn((), turns.driver.now())
        await turns.until(2.0)
        assert turns.times == pytest.approx([1.0], abs=JOIN / 10)
        assert turns.driver.turns == 2

    run_virtually(main())
