"""A peer that is gone is noticed soon, and forged ICMP does no harm to one that is there."""

from __future__ import annotations

import asyncio
import socket

import pytest

from aqueduct_core.transport import dialled_socket
from aqueduct_core.transport.dialled_socket import LivenessProbe
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.udp_socket import UdpSocket
from tests.core.transport.ends import dialled, ended, serving
from tests.support.event_loop import eventually
from tests.support.virtual_loop import let_happen, run_virtually
from tests.support.waiting import LONG


def test_refusals_over_a_second_without_a_packet_mean_gone() -> None:
    judged = LivenessProbe(10.0, 5, 0.01)
    for step in range(1, 5):
        judged.refused(10.0 + step * 0.2)
        assert judged.verdict(10.0 + step * 0.2, 5) is None
    judged.refused(11.0)
    assert judged.verdict(11.0, 5) is True


def test_one_packet_ends_the_question() -> None:
    judged = LivenessProbe(10.0, 5, 0.01)
    for step in range(1, 20):
        judged.refused(10.0 + step * 0.2)
    assert judged.verdict(14.0, 6) is False


def test_two_refusals_are_not_enough_but_three_seconds_of_silence_are() -> None:
    judged = LivenessProbe(10.0, 5, None)
    judged.refused(12.0)
    assert judged.verdict(12.9, 5) is None
    assert judged.verdict(13.0, 5) is True


def test_the_time_to_answer_grows_with_the_round_trip() -> None:
    judged = LivenessProbe(10.0, 5, 0.5)
    for step in range(1, 20):
        judged.refused(10.0 + step * 0.1)
    assert judged.verdict(11.9, 5) is None
    judged.refused(12.0)
    assert judged.verdict(12.0, 5) is True
    assert LivenessProbe(10.0, 5, 0.5).verdict(15.9, 5) is None


def udp(driver: Driver) -> UdpSocket:
    found = driver._send.__self__._socket  # type: ignore[attr-defined]
    assert isinstance(found, UdpSocket)
    return found


@pytest.mark.parametrize("busy", [True, False])
def test_fault_01_a_server_that_is_gone_without_a_word_is_noticed(
    busy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the port closed, as after a kill -9: long before the idle timeout of 30 s."""
    monkeypatch.setattr(dialled_socket, "REFUSED_SECONDS", 0.3)

    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            await eventually(lambda: bool(server.listener.drivers))
            server.listener._socket.close()
            if busy:
                probe.write(probe.open(), bytes(100_000), end=True)
                driver.kick()
            else:
                driver.link.probe()  # the ping that keeps an idle connection alive
                driver.kick()
            async with asyncio.timeout(LONG):
                await driver.wait_closed()
            assert probe.lost is not None
            assert probe.lost.reason.startswith("unreachable")
            assert not probe.lost.by_peer
            for accepted in list(server.listener.drivers):
                accepted.abandon()

    run_virtually(main())


def test_fault_01_a_server_that_was_started_again_on_its_port_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialled_socket, "SILENT_SECONDS", 0.6)

    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            await eventually(lambda: bool(server.listener.drivers))
            port = server.port
            server.listener._socket.close()
            driver.link.probe()
            driver.kick()
            attempt = udp(driver)._on_error.__self__  # type: ignore[attr-defined]
            await eventually(lambda: attempt._probe is not None)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
                deaf.bind(("127.0.0.1", port))
                async with asyncio.timeout(LONG):
                    await driver.wait_closed()
            assert probe.lost is not None
            assert probe.lost.reason.startswith("unreachable")
            for accepted in list(server.listener.drivers):
                accepted.abandon()

    run_virtually(main())


def test_forged_refusals_do_not_end_a_connection_that_is_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialled_socket, "REFUSED_SECONDS", 0.1)
    monkeypatch.setattr(dialled_socket, "SILENT_SECONDS", 0.3)

    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            forged = udp(driver)._on_error
            asked = driver.statistics.datagrams_sent
            while driver.statistics.datagrams_sent < asked + 12:  # pings, each with its answer
                forged(ConnectionRefusedError(111, "Connection refused"))
                forged(OSError(113, "No route to host"))
                await let_happen(0.01)
            assert probe.lost is None
            probe.write(probe.open(), b"still here", end=True)
            driver.kick()
            await eventually(lambda: bool(server.probes[0].streams))
            await ended(driver)

    run_virtually(main())
