"""Packets of engines over real sockets: a listener with many peers, and those who dial."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.transport import Driver, ListenLimits
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.plain_udp.endpoints import PlainListener, dial, listen
from aqueduct_core.transport.plain_udp.link import LARGEST_UNFRAGMENTED, PlainSettings
from tests.core.transport.ends import ended
from tests.core.transport.probe import Probe
from tests.support.event_loop import eventually
from tests.support.proxy import Impairment, Proxy
from tests.support.virtual_loop import run_virtually
from tests.support.waiting import LONG

MIB = 1 << 20
HOST = "127.0.0.1"


def nobody(driver: Driver, events: list[Any]) -> None:
    """Who takes events that are of no interest."""


@asynccontextmanager
async def serving(
    make: Callable[[], Probe] = lambda: Probe(client=False, echoes=True),
    limits: ListenLimits | None = None,
    settings: PlainSettings | None = None,
    host: str = HOST,
) -> AsyncIterator[tuple[PlainListener, list[Probe]]]:
    probes: list[Probe] = []

    def welcome(peer: Address, now: float) -> tuple[Probe, Callable[[Driver, list[Any]], None]]:
        probes.append(make())
        return probes[-1], nobody

    listener = await listen(host, 0, make_engine=welcome, limits=limits, settings=settings)
    try:
        yield listener, probes
    finally:
        await listener.close()


async def dialled(
    port: int, settings: PlainSettings | None = None, *, host: str = HOST
) -> tuple[Driver, Probe]:
    probe = Probe(client=True)
    driver = await dial(
        host, port, make_engine=lambda now: probe, on_events=nobody, settings=settings
    )
    return driver, probe


def send(driver: Driver, probe: Probe, *packets: bytes) -> None:
    for packet in packets:
        probe.datagram(packet)
    driver.kick()


def test_each_peer_has_a_connection_of_its_own() -> None:
    async def main() -> None:
        async with serving() as (listener, probes):
            clients = [await dialled(listener.address[1]) for _ in range(5)]
            for number, (driver, probe) in enumerate(clients):
                send(driver, probe, b"hello", b"%d" % number)
            await eventually(lambda: all(len(probe.datagrams) == 2 for _, probe in clients))
            for number, (_, probe) in enumerate(clients):
                assert probe.datagrams == [b"hello", b"%d" % number]
            assert len(probes) == len(listener.drivers) == 5
            assert listener.counts.ready == 5
            await ended(*(driver for driver, _ in clients))

    run_virtually(main())


def test_a_peer_that_is_silent_is_forgotten() -> None:
    async def main() -> None:
        async with serving(settings=PlainSettings(idle_timeout=0.1)) as (listener, probes):
            driver, probe = await dialled(listener.address[1])
            send(driver, probe, b"x")
            await eventually(lambda: bool(probes) and not listener.drivers)
            lost = probes[0].lost
            assert lost is not None
            assert lost.origin is CloseOrigin.IDLE_TIMEOUT
            send(driver, probe, b"y")
            await eventually(lambda: len(probes) == 2)
            await ended(driver)

    run_virtually(main())


def test_strangers_are_few_and_get_nothing_for_nothing() -> None:
    """From made-up addresses: the oldest gives way, and nobody is sent more than came from it."""

    def generous() -> Probe:
        probe = Probe(client=False, admits=False)
        for _ in range(100):
            probe.datagram(bytes(100))
        return probe

    async def main() -> None:
        limits = ListenLimits(handshakes=4, handshakes_per_network=1)
        async with serving(generous, limits) as (listener, probes):
            listener.receive([(bytes(100), (HOST, 40_000 + n)) for n in range(40)])
            await eventually(lambda: len(probes) == 40)
            assert len(listener.drivers) == 4
            assert listener.counts.gave_way == 36
            for driver in listener.drivers:
                assert driver.statistics.bytes_sent == 100
                assert driver.link.backlogged

    run_virtually(main())


def test_a_new_address_is_a_new_peer() -> None:
    """Nothing but the address tells whose packets these are."""

    async def main() -> None:
        async with serving() as (listener, probes):
            proxy = Proxy(listener.address, Impairment(), 1)
            _, port = await proxy.open()
            driver, probe = await dialled(port)
            send(driver, probe, b"from here")
            await eventually(lambda: probe.datagrams == [b"from here"])
            await proxy.rebind()
            send(driver, probe, b"from there")
            await eventually(lambda: len(probe.datagrams) == 2)
            assert [each.datagrams for each in probes] == [[b"from here"], [b"from there"]]
            assert len(listener.drivers) == 2
            await ended(driver)
            proxy.close()

    run_virtually(main())


@pytest.mark.parametrize("host", [HOST, "::1"])
def test_packets_up_to_the_bound_of_each_family_of_addresses(host: str) -> None:
    async def main() -> None:
        async with serving(host=host) as (listener, _probes):
            driver, probe = await dialled(listener.address[1], host=host)
            send(driver, probe, bytes(LARGEST_UNFRAGMENTED), bytes(LARGEST_UNFRAGMENTED + 1), b"x")
            await eventually(lambda: len(probe.datagrams) == 2)
            assert [len(each) for each in probe.datagrams] == [LARGEST_UNFRAGMENTED, 1]
            assert driver.statistics.datagram_frames_refused == 1
            assert listener.address[0] == host
            await ended(driver)

    run_virtually(main())


def test_there_is_a_bound_for_all_connections() -> None:
    async def main() -> None:
        async with serving(limits=ListenLimits(connections=3)) as (listener, probes):
            for _ in range(2):
                listener.receive([(b"x", (HOST, 40_000 + n)) for n in range(10)])
            await eventually(lambda: listener.counts.refused == 14)
            assert len(probes) == 3
            listener.refuse()
            listener.receive([(b"x", (HOST, 50_000))])
            assert listener.counts.refused == 15

    run_virtually(main())


def test_who_makes_us_hold_too_much_is_closed() -> None:
    async def main() -> None:
        async with serving(limits=ListenLimits(memory=MIB)) as (listener, probes):
            driver, probe = await dialled(listener.address[1])
            send(driver, probe, b"x")
            await eventually(lambda: bool(probes))
            (accepted,) = listener.drivers
            accepted.held = lambda: 2 * MIB
            send(driver, probe, b"y")
            await eventually(lambda: probes[0].lost is not None)
            lost = probes[0].lost
            assert lost is not None
            assert lost.origin is CloseOrigin.TRANSPORT
            assert listener.memory_counts.evicted == 1
            await ended(driver)

    run_virtually(main())


def test_a_closed_port_ends_a_dial_when_the_network_says_so() -> None:
    async def main() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind((HOST, 0))
            port = taken.getsockname()[1]
        driver, probe = await dialled(port)
        send(driver, probe, b"anybody?")
        async with asyncio.timeout(LONG):
            await driver.wait_closed()
        assert probe.lost is not None
        assert probe.lost.reason.startswith("unreachable")

    run_virtually(main())


def test_a_name_that_is_not_known() -> None:
    async def main() -> None:
        with pytest.raises(ConnectFailed, match="cannot be resolved"):
            await dial(
                "no.such.host.invalid",
                1,
                make_engine=lambda now: Probe(client=True),
                on_events=nobody,
            )

    run_virtually(main())


def test_an_engine_that_cannot_be_made_fails_the_dial() -> None:
    def make(now: float) -> Probe:
        raise RuntimeError("no engine today")

    async def main() -> None:
        with pytest.raises(RuntimeError, match="today"):
            await dial(HOST, 1, make_engine=make, on_events=nobody)

    run_virtually(main())
