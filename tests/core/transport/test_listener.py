"""Dialled and accepted ends over real sockets: opening, closing, limits, garbage."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket

import pytest
from aioquic._buffer import Buffer
from aioquic.quic.packet import QuicErrorCode, pull_quic_header

from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import Input, LinkLost, StreamBytes
from aqueduct_core.errors import ConnectFailed
from aqueduct_core.logs.refusals import LINES
from aqueduct_core.transport import Driver, LinkSettings, ListenLimits, listen
from aqueduct_core.transport.aioquic.factory import client_link
from aqueduct_core.transport.aioquic.link import AioquicLink
from tests.core.transport.ends import ALPN, counted, dialled, ended, serving
from tests.core.transport.probe import Probe
from tests.support.event_loop import client_tls, eventually, server_tls
from tests.support.virtual_loop import let_happen, run_virtually
from tests.support.waiting import LONG

QUICK = LinkSettings(idle_timeout=0.3, handshake_timeout=0.3)
"""For what is never answered."""
DROWSY = LinkSettings(idle_timeout=3.0)


def test_many_streams_and_datagrams_both_ways() -> None:
    async def main() -> None:
        async with serving(make=lambda: Probe(client=False, echoes=True)) as server:
            driver, probe = await dialled(server)
            for i in range(500):
                probe.write(probe.open(), bytes([i % 256]) * (i * 7), end=True)
            for i in range(50):
                probe.datagram(bytes([i]) * 20)
            driver.kick()
            await eventually(lambda: len(probe.ended) == 500)
            await eventually(lambda: len(probe.datagrams) == 50)
            assert sorted(probe.datagrams) == [bytes([i]) * 20 for i in range(50)]
            assert sum(probe.streams.values()) == sum(i * 7 for i in range(500))
            await ended(driver)

    run_virtually(main())


def test_a_datagram_too_large_is_refused_and_blocks_nothing() -> None:
    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            assert probe.ready is not None
            largest = probe.ready.max_datagram_size
            assert 1_100 < largest < 1_200
            probe.datagram(bytes(largest + 1), token=5)
            probe.datagram(bytes(70_000), token=6)
            probe.datagram(bytes(largest), token=7)
            probe.datagram(b"small", token=8)
            driver.kick()
            await eventually(lambda: [len(p.datagrams) for p in server.probes] == [2])
            assert server.probes[0].datagrams == [bytes(largest), b"small"]
            assert probe.refused == [5, 6]
            assert driver.statistics.datagram_frames_refused == 2
            assert driver.unsent < 10
            await ended(driver)

    run_virtually(main())


def test_a_peer_without_datagrams_is_told_apart() -> None:
    async def main() -> None:
        async with serving(settings=LinkSettings(max_datagram_frame_size=0)) as server:
            driver, probe = await dialled(server)
            assert probe.ready is not None
            assert probe.ready.max_datagram_size == 0
            probe.datagram(b"", token=1)
            probe.datagram(b"x", token=2)
            driver.kick()
            await eventually(lambda: 2 in probe.refused)
            await ended(driver)

    run_virtually(main())


@pytest.mark.parametrize("by_client", [True, False])
def test_a_close_tells_the_peer_code_and_reason_and_frees_everything(by_client: bool) -> None:
    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            await eventually(lambda: len(server.listener.drivers) == 1 and bool(server.probes))
            (accepted,) = server.listener.drivers
            theirs = server.probes[0]
            first, second = (probe, theirs) if by_client else (theirs, probe)
            first.close(9, "enough")
            (driver if by_client else accepted).kick()
            await driver.wait_closed()
            await accepted.wait_closed()
            assert first.lost == LinkLost(9, "enough", by_peer=False)
            assert second.lost == LinkLost(9, "enough", by_peer=True)
            assert driver.closed
            assert accepted.closed
            assert not server.listener.drivers
            assert not server.listener._routes
            assert not server.listener._addresses
            driver.kick()
            driver.close()
            await driver.writable()

    run_virtually(main())
    gc.collect()


def test_bytes_that_came_before_a_close_are_delivered_before_it() -> None:
    seen: list[Input] = []

    async def main() -> None:
        make = lambda: Probe(client=False, on_input=seen.append)  # noqa: E731
        async with serving(make=make) as server:
            driver, probe = await dialled(server)
            stream = probe.open()
            probe.write(stream, b"last words", end=True)
            driver.kick()
            await eventually(lambda: [p.received for p in server.probes] == [10])
            probe.close(0, "done")
            driver.kick()
            await eventually(lambda: server.probes[0].lost is not None)
            await driver.wait_closed()

    run_virtually(main())
    kinds = [type(input) for input in seen]
    assert kinds.index(StreamBytes) < kinds.index(LinkLost)
    assert kinds[-1] is LinkLost
    assert kinds.count(LinkLost) == 1


def test_a_listener_that_closes_ends_all_links_in_order() -> None:
    async def main() -> None:
        async with serving() as server:
            ends = [await dialled(server) for _ in range(5)]
            await eventually(lambda: len(server.probes) == 5)
            await server.listener.close(3, "going home")
            for driver, probe in ends:
                await driver.wait_closed()
                assert probe.lost == LinkLost(3, "going home", by_peer=True)
            with pytest.raises(ConnectFailed, match="REFUSED"):
                await dialled(server)

    run_virtually(main())


def test_silence_longer_than_the_idle_timeout_loses_the_link() -> None:
    async def main() -> None:
        async with serving(settings=DROWSY) as server:
            driver, probe = await dialled(server, settings=DROWSY)
            await eventually(lambda: bool(server.probes))
            (accepted,) = server.listener.drivers
            for end in (driver, accepted):
                end._send = lambda datagrams: None
            await driver.wait_closed()
            await accepted.wait_closed()
            silent = CloseOrigin.IDLE_TIMEOUT
            lost = LinkLost(0, "idle timeout", by_peer=False, origin=silent)
            assert probe.lost == server.probes[0].lost == lost

    run_virtually(main())


def test_a_link_that_is_abandoned_was_closed_by_nobody() -> None:
    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            driver.abandon("no use")
            left = CloseOrigin.ABANDONED
            assert probe.lost == LinkLost(0, "no use", by_peer=False, origin=left)

    run_virtually(main())


@pytest.mark.parametrize("by_client", [True, False])
def test_an_error_of_quic_comes_with_its_code_and_side(by_client: bool) -> None:
    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            await eventually(lambda: bool(server.probes))
            (accepted,) = server.listener.drivers
            theirs = server.probes[0]
            ends = [(driver, probe), (accepted, theirs)]
            (failing, first), (_, second) = ends if by_client else reversed(ends)
            assert isinstance(failing.link, AioquicLink)
            failing.link._quic.close(QuicErrorCode.FLOW_CONTROL_ERROR, 0, "too much")
            failing.kick()
            await driver.wait_closed()
            await accepted.wait_closed()
            quic = CloseOrigin.TRANSPORT
            assert first.lost == LinkLost(3, "too much", by_peer=False, origin=quic)
            assert second.lost == LinkLost(3, "too much", by_peer=True, origin=quic)

    run_virtually(main())


def test_pings_keep_an_idle_link_alive() -> None:
    async def main() -> None:
        async with serving(settings=DROWSY) as server:
            driver, probe = await dialled(server, settings=DROWSY)
            await let_happen(1.5 * DROWSY.idle_timeout)
            assert probe.lost is None
            await ended(driver)

    run_virtually(main())


def test_two_hundred_connections_at_once() -> None:
    async def main() -> None:
        make = lambda: Probe(client=False, echoes=True)  # noqa: E731
        patient = LinkSettings(handshake_timeout=30.0)
        async with serving(make=make, settings=patient) as server:
            gate = asyncio.Semaphore(40)

            async def one(number: int) -> None:
                async with gate:
                    driver, probe = await dialled(server, settings=patient)
                    probe.write(probe.open(), number.to_bytes(4, "big") * 500, end=True)
                    driver.kick()
                    await eventually(lambda: bool(probe.ended))
                assert probe.streams == {3: 2_000}
                drivers.append(driver)

            drivers: list[Driver] = []
            await asyncio.gather(*(one(i) for i in range(200)))
            assert len(server.listener.drivers) == 200
            await ended(*drivers)
            await eventually(lambda: not server.listener.drivers)
            assert server.listener.counts.ready == 200

    run_virtually(main())


def test_garbage_is_counted_and_harms_nobody() -> None:
    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            stranger = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            stranger.setblocking(False)
            address = ("127.0.0.1", server.port)
            pieces = [b"", b"\x00", b"\xff" * 5, os.urandom(40), b"\x40" + os.urandom(60)]
            # Long headers: a fixed bit that is missing, lengths beyond the end, an Initial that
            # does not decrypt, one that is too small.
            initial = b"\xc3\x00\x00\x00\x01\x08" + os.urandom(8) + b"\x08" + os.urandom(8)
            pieces.append(initial + b"\x00\x44\x9e" + os.urandom(1_182))
            pieces.append(initial + b"\x00\x40\x20" + os.urandom(32))
            pieces.append(initial + b"\x7f" + bytes(1_200))
            pieces += [os.urandom(1_200) for _ in range(200)]
            for piece in pieces:
                stranger.sendto(piece, address)
            probe.write(probe.open(), bytes(100_000), end=True)
            driver.kick()
            counts = server.listener.counts
            await eventually(lambda: counts.garbage + counts.unknown_version >= len(pieces))
            await eventually(lambda: [p.received for p in server.probes] == [100_000])
            stranger.close()
            assert len(server.listener.drivers) == 1
            await ended(driver)

    run_virtually(main())


def test_an_unknown_version_is_answered_with_the_known_ones() -> None:
    async def main() -> None:
        async with serving() as server:
            loop = asyncio.get_running_loop()
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
                stranger.setblocking(False)
                stranger.connect(("127.0.0.1", server.port))
                hello = b"\xc0\x1a\x2a\x3a\x4a\x08destined\x04from" + bytes(1_200)
                await loop.sock_sendall(stranger, hello)
                answer = await asyncio.wait_for(loop.sock_recv(stranger, 2_000), LONG)
            header = pull_quic_header(Buffer(data=answer))
            assert header.version == 0
            assert header.destination_cid == b"from"
            assert header.source_cid == b"destined"
            assert 1 in header.supported_versions
            assert server.listener.counts.unknown_version == 1
            assert not server.listener.drivers

    run_virtually(main())


def test_limits_on_connections_and_addresses_refuse_without_a_reply() -> None:
    async def main() -> None:
        limits = ListenLimits(connections_per_address=2)
        async with serving(limits=limits) as server:
            ends = [await dialled(server) for _ in range(2)]
            with pytest.raises(ConnectFailed, match="NO_REPLY"):
                await dialled(server, settings=QUICK)
            assert server.listener.counts.refused >= 1
            await ended(ends[0][0])
            await eventually(lambda: len(server.listener.drivers) == 1)
            third, _ = await dialled(server)
            await ended(third, ends[1][0])

    run_virtually(main())


def test_refusals_are_logged_with_a_bound_and_a_count(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "aqueduct_core.transport.datagram_server")
    pieces = 40

    async def main() -> None:
        async with serving(limits=ListenLimits(connections_per_address=1)) as server:
            counts = server.listener.counts
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                for _ in range(pieces):
                    sock.sendto(b"\x40garbage", ("127.0.0.1", server.port))
            await eventually(lambda: counts.garbage == pieces)
            driver, _ = await dialled(server)
            with pytest.raises(ConnectFailed, match="NO_REPLY"):
                await dialled(server, settings=QUICK)
            assert counts.refused >= 1
            await ended(driver)

    run_virtually(main())
    lines = [line for line in caplog.messages if "belongs to no connection" in line]
    assert len(lines) == LINES
    assert (
        f"packets that belong to no connection: {pieces - LINES} more in the last 10 s, "
        "without a line each"
    ) in caplog.messages
    assert any("refused: 1 connections of its address are there" in m for m in caplog.messages)


def test_unfinished_handshakes_end_by_their_timeout() -> None:
    async def main() -> None:
        async with serving(settings=QUICK) as server:
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            now = asyncio.get_running_loop().time()
            address = ("127.0.0.1", server.port)
            link = client_link(ALPN, LinkSettings(), client_tls(), "127.0.0.1", address, now)
            for data, to in link.transmit(now):
                sock.sendto(data, to)
            await eventually(lambda: server.listener.counts.accepted == 1)
            await eventually(lambda: not server.listener.drivers)
            assert not server.probes
            sock.close()

    run_virtually(main())


def test_an_engine_that_fails_loses_its_own_connection_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR)

    def boom(input: Input) -> None:
        if isinstance(input, StreamBytes) and input.data == b"boom":
            raise RuntimeError("a bug")

    async def main() -> None:
        async with serving(make=lambda: Probe(client=False, on_input=boom)) as server:
            good, good_probe = await dialled(server)
            bad, bad_probe = await dialled(server)
            bad_probe.write(bad_probe.open(), b"boom")
            bad.kick()
            await bad.wait_closed()
            assert bad_probe.lost == LinkLost(10, "internal error", by_peer=True)
            good_probe.write(good_probe.open(), b"fine", end=True)
            good.kick()
            await eventually(lambda: 4 in [p.received for p in server.probes])
            await ended(good)

    run_virtually(main())
    assert "a bug" in caplog.text


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_ipv6_loopback(), reason="no IPv6 loopback here")
def test_one_end_only_over_ipv6() -> None:
    async def main() -> None:
        async with serving("::1") as server:
            driver, probe = await dialled(server, host="::1")
            probe.write(probe.open(), bytes(50_000), end=True)
            driver.kick()
            await eventually(lambda: bool(server.probes) and bool(server.probes[0].ended))
            assert [p.received for p in server.probes] == [50_000]
            await ended(driver)

    run_virtually(main())


def test_an_engine_is_woken_when_it_asked_to_be() -> None:
    async def main() -> None:
        async with serving() as server:
            driver, probe = await dialled(server)
            at = driver.now() + 0.03
            probe.wake_at = at
            driver.kick()
            await eventually(lambda: bool(probe.ticks))
            assert 0 <= probe.ticks[0] - at < 1.0
            await ended(driver)

    run_virtually(main())


def test_listening_twice_on_a_port_says_that_it_is_in_use() -> None:
    async def main() -> None:
        async with serving() as server:
            with pytest.raises(ConnectFailed, match=r"REFUSED.*in use"):
                await listen(
                    "127.0.0.1",
                    server.port,
                    {ALPN: counted()},
                    tls=server_tls(),
                )

    run_virtually(main())
