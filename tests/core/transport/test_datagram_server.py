"""A listener and those who have proved nothing: what they cost, and what they take from others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from aqueduct_core.engine.actions import Admit
from aqueduct_core.transport import Driver, LinkSettings, ListenLimits, datagram_server
from aqueduct_core.transport.aioquic.factory import STREAMS_OF_STRANGERS, client_link
from aqueduct_core.transport.fair_turns import FairTurns
from aqueduct_core.transport.link import Address, Link
from aqueduct_core.transport.settings import LARGEST_DATAGRAM
from tests.core.transport.ends import ALPN, Server, dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.support.event_loop import client_tls, eventually

FROM: Address = ("192.0.2.1", 9)


def dialling(server: Server) -> tuple[Link, bytes]:
    """A client that only knows how to begin, and its first datagram."""
    now = asyncio.get_running_loop().time()
    address = ("127.0.0.1", server.port)
    link = client_link(ALPN, LinkSettings(), client_tls(), "127.0.0.1", address, now)
    return link, link.transmit(now)[0][0]


def initial(server: Server) -> bytes:
    return dialling(server)[1]


def padded(server: Server, size: int) -> bytes:
    first = initial(server)
    return first + bytes(size - len(first))


async def seen(server: Server) -> None:
    """Nobody waits any more."""
    await eventually(lambda: not server.listener._strangers)


@pytest.mark.parametrize("at", [30, 200, 500])
def test_for_an_initial_that_is_not_authentic_nothing_is_built(
    at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with serving() as server:
            broken = bytearray(initial(server))
            broken[at] ^= 1
            monkeypatch.setattr(server.listener._library, "accept", None)
            server.listener.receive([(bytes(broken), FROM)])
            await seen(server)
            assert server.listener.counts.garbage == 1
            assert not server.listener.drivers

    asyncio.run(main())


def test_a_short_destination_id_is_garbage() -> None:
    async def main() -> None:
        async with serving() as server:
            short = b"\xc3\x00\x00\x00\x01\x07" + os.urandom(7) + b"\x08" + os.urandom(8)
            server.listener.receive([(short + b"\x00\x44\x9e" + os.urandom(1_200), FROM)])
            await seen(server)
            assert server.listener.counts.garbage == 1

    asyncio.run(main())


def test_strangers_wait_for_their_share_and_the_known_go_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With no time at all for them, one comes in with each turn, and nobody else waits for it."""
    monkeypatch.setattr(datagram_server, "STRANGERS_SHARE", 1e-9)
    monkeypatch.setattr(datagram_server, "STRANGERS_WAITING", 20)

    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            await eventually(lambda: bool(server.probes))
            (mine,) = server.listener.drivers
            turns: list[object] = []
            turn = mine.turn

            def counted(*arguments: object) -> None:
                turns.append(len(server.listener._strangers))
                turn(*arguments)  # type: ignore[arg-type]

            monkeypatch.setattr(mine, "turn", counted)
            accepted = server.listener.counts.accepted
            server.listener.receive([(initial(server), FROM) for _ in range(30)])
            assert server.listener.counts.accepted == accepted + 1
            assert server.listener.counts.overrun == 10
            probe.write(probe.open(), b"hello", end=True)
            driver.kick()
            await eventually(lambda: bool(server.probes[0].ended))
            await seen(server)
            assert server.listener.counts.accepted == accepted + 20
            assert turns
            await ended(driver)

    asyncio.run(main())


def test_a_handshake_that_proves_nothing_waits_with_the_strangers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else each of a hundred first flights that are replayed has a turn as good as a producer's."""

    async def main() -> None:
        async with serving() as server:
            replayed = initial(server)
            server.listener.receive([(replayed, FROM)])
            await seen(server)
            turns: list[object] = []
            add = server.listener._turns.add

            def counted(*arguments: object) -> bool:
                turns.append(arguments)
                return add(*arguments)  # type: ignore[arg-type]

            monkeypatch.setattr(server.listener._turns, "add", counted)
            server.listener.receive([(replayed, FROM)] * 10)
            await seen(server)
            assert not turns
            assert server.listener.counts.accepted == 1
            driver, _ = await dialled(server)
            await ended(driver)

    asyncio.run(main())


def test_handshakes_of_one_network_give_way_to_each_other_only() -> None:
    async def main() -> None:
        limits = ListenLimits(handshakes_per_network=3, retry="never")
        async with serving(limits=limits) as server:
            _, first = dialling(server)
            server.listener.receive([(first, ("192.0.2.2", 1))])
            await seen(server)
            (kept,) = server.listener.drivers
            for port in range(10):
                server.listener.receive([(initial(server), ("192.0.2.1", port))])
                await seen(server)
            assert len(server.listener.drivers) == 4
            assert kept in server.listener.drivers
            assert server.listener.counts.gave_way == 7
            assert {driver.peer[1] for driver in server.listener.drivers} == {1, 7, 8, 9}

    asyncio.run(main())


def test_in_a_flood_clients_are_asked_for_their_address_and_good_ones_come_in() -> None:
    """Half-open handshakes of many addresses: from a quarter of the bound on each is answered by a
    Retry, so that the flood has no more of them, and a client that answers is served."""

    async def main() -> None:
        limits = ListenLimits(handshakes=40)
        async with serving(limits=limits) as server:
            counts = server.listener.counts
            for number in range(100):
                server.listener.receive([(initial(server), (f"192.0.2.{number}", 1))])
                await seen(server)
            assert len(server.listener.drivers) == 10
            assert counts.retried == 90
            good, _ = await dialled(server)
            assert counts.retried == 91
            assert counts.gave_way == 0
            await ended(good)

    asyncio.run(main())


def test_who_has_proved_its_address_gives_way_to_no_stranger() -> None:
    async def main() -> None:
        limits = ListenLimits(handshakes=4, retry="never")
        async with serving(limits=limits, make=lambda: Probe(client=False, admits=False)) as server:
            good, _ = await dialled(server)
            await eventually(lambda: bool(server.probes))
            (driver,) = server.listener.drivers
            assert driver in server.listener._half_open
            for number in range(2, 20):
                server.listener.receive([(initial(server), (f"192.0.2.{number}", 1))])
                await seen(server)
            assert driver in server.listener.drivers
            assert len(server.listener.drivers) == 4
            assert server.listener.counts.gave_way == 15
            await ended(good)

    asyncio.run(main())


def test_who_is_not_admitted_has_few_streams() -> None:
    async def main() -> None:
        async with serving(make=lambda: Probe(client=False, admits=False)) as server:
            driver, probe = await dialled(server)
            await eventually(lambda: bool(server.probes))
            for _ in range(STREAMS_OF_STRANGERS + 50):
                probe.write(probe.open(), b"x", end=False)
            driver.kick()
            there = server.probes[0]
            await eventually(lambda: len(there.streams) == STREAMS_OF_STRANGERS)
            there._actions.append(Admit())
            (mine,) = server.listener.drivers
            mine.kick()
            await eventually(lambda: len(there.streams) == STREAMS_OF_STRANGERS + 50)
            assert mine not in server.listener._half_open
            await ended(driver)

    asyncio.run(main())


def test_the_known_have_their_share_while_strangers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[float] = []
    others: list[bool] = []

    class Recorded(FairTurns[Driver, tuple[bytes, Address]]):
        def __init__(self, share: float, stranger: Callable[[Driver], bool]) -> None:
            super().__init__(share, stranger)
            shares.append(share)

        def next(
            self, *, others: bool = False
        ) -> tuple[Driver, list[tuple[bytes, Address]]] | None:
            note(others)
            return super().next(others=others)

    note = others.append
    monkeypatch.setattr(datagram_server, "FairTurns", Recorded)
    monkeypatch.setattr(datagram_server, "STRANGERS_SHARE", 1e-9)

    async def main() -> None:
        async with serving(limits=ListenLimits(connection_share=0.25)) as server:
            driver, probe = await dialled(server)
            await eventually(lambda: bool(server.probes))
            assert shares == [0.25]
            server.listener.receive([(initial(server), FROM) for _ in range(5)])
            others.clear()
            probe.write(probe.open(), b"hello", end=True)
            driver.kick()
            await eventually(lambda: bool(server.probes[0].ended))
            await seen(server)
            assert others[0] is True
            others.clear()
            driver.kick()
            probe.write(probe.open(), b"alone", end=True)
            await eventually(lambda: len(server.probes[0].ended) == 2)
            assert not any(others)
            await ended(driver)

    asyncio.run(main())


def test_an_initial_that_is_larger_than_any_honest_one_is_garbage() -> None:
    async def main() -> None:
        async with serving() as server:
            server.listener.receive([(padded(server, LARGEST_DATAGRAM), FROM)])
            await seen(server)
            assert server.listener.counts.accepted == 1
            server.listener.receive([(padded(server, LARGEST_DATAGRAM + 1), FROM)])
            await seen(server)
            assert (server.listener.counts.accepted, server.listener.counts.garbage) == (1, 1)

    asyncio.run(main())


def test_no_more_than_a_first_flight_of_a_stranger_is_taken_in_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever one sends for the connection that it begins, others have turns in between."""
    turns: list[list[int]] = []
    turn = Driver.turn

    def seen_turn(self: Driver, datagrams: list[tuple[bytes, Address]], now: float) -> None:
        turns.append([len(data) for data, _ in datagrams])
        turn(self, datagrams, now)

    monkeypatch.setattr(Driver, "turn", seen_turn)

    async def main() -> None:
        async with serving() as server:
            first = initial(server)
            server.listener.receive([(first, FROM)] * 300)
            await seen(server)
            sizes = [sizes for sizes in turns if sizes]
            assert sum(map(len, sizes)) == 300
            assert max(map(sum, sizes)) <= datagram_server.FIRST_FLIGHT
            assert max(map(len, sizes)) > 1

    asyncio.run(main())
