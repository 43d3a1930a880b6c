"""What hostile and greedy peers may use of an intake, and that the others do not suffer by it."""

from __future__ import annotations

import asyncio
import random
import socket
from dataclasses import replace
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.connection import ClientConnection
from aqueduct_core.aio.halves import Receiver, channel
from aqueduct_core.aio.outcomes import ConnectionLost
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aqueduct.config import ALPN, DEFAULT_CONFIG
from aqueduct_core.aqueduct.events import Closed
from aqueduct_core.aqueduct.faults import Code
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.errors import ConnectFailed, ProtocolViolation
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.aqueduct.session import fault_of_peer
from aqueduct_core.intake.sessions.context import Fault
from aqueduct_core.transport import addresses, dialer
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.link import Address
from aqueduct_core.transport.settings import LinkSettings
from tests.core.intake.lives import run
from tests.core.transport.probe import Probe
from tests.support.event_loop import eventually
from tests.support.intake_process import IntakeProcess, Site
from tests.support.processes import resident_bytes
from tests.support.waiting import LONG

GREEDY = replace(
    DEFAULT_CONFIG, max_attachments=100_000, max_headers_bytes=10_000_000, max_header_pairs=100_000
)
QUICK = LinkSettings(handshake_timeout=0.6)


async def status(intake: IntakeProcess) -> dict[str, int]:
    found = await asyncio.to_thread(intake.status)
    return dict(found.counters) | {"connections": found.connections, "channels": found.channels}


async def counted(intake: IntakeProcess, name: str, least: int) -> int:
    """Wait until a counter of the status is there."""
    async with asyncio.timeout(LONG):
        while (value := (await status(intake))[name]) < least:
            await asyncio.sleep(0.02)
    return value


async def works(connection: ClientConnection, name: str) -> None:
    """A whole channel of a good peer goes through."""
    sender, receiver = channel(name=name)
    await connection.entrypoint.send(b"", attach=receiver)
    await sender.send_many([b"%d" % number for number in range(100)])
    await sender.finish()
    assert sender.statistics.acked == 100


async def closed_for(connection: ClientConnection, code: int) -> None:
    async with asyncio.timeout(LONG):
        await connection.wait_closed()
    assert connection.closed is not None
    assert (connection.closed.code, connection.closed.by_peer) == (code, True)


def test_connections_are_limited_and_room_is_given_again(site: Site) -> None:
    async def main(intake: IntakeProcess) -> None:
        def dialled() -> Any:
            return connect(intake.url, tls=site.client_tls, settings=QUICK)

        first, second = [await connect(intake.url, tls=site.client_tls) for _ in range(2)]
        with pytest.raises(ConnectFailed, match=r"AQUEDUCT_CONNECT\.NO_REPLY"):
            await dialled()
        assert await counted(intake, "connections_refused", 1) >= 1
        await works(first, "good")
        await second.close()
        async with asyncio.timeout(LONG):
            while True:  # the closing period of the second one must be over
                try:
                    third = await dialled()
                    break
                except ConnectFailed:
                    pass
        await works(third, "as good")
        await third.close()
        await first.close()

    with site.intake(limits=AqueductLimits(connections=2)) as intake:
        run(main(intake))


def test_connections_of_one_address_are_limited(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = "127.0.0.1"

    def from_home(family: socket.AddressFamily, address: Address) -> socket.socket:
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.bind((home, 0))
        sock.connect(address)
        return sock

    assert callable(addresses.connected)
    monkeypatch.setattr(dialer, "connected", from_home)

    async def main(intake: IntakeProcess) -> None:
        nonlocal home
        mine = [await connect(intake.url, tls=site.client_tls) for _ in range(2)]
        with pytest.raises(ConnectFailed, match="NO_REPLY"):
            await connect(intake.url, tls=site.client_tls, settings=QUICK)
        home = "127.0.0.2"
        async with connect(intake.url, tls=site.client_tls) as other:
            await works(other, "another host")
        assert await counted(intake, "connections_refused", 1) >= 1
        for connection in mine:
            await connection.close()

    with site.intake(limits=AqueductLimits(connections_per_address=2)) as intake:
        run(main(intake))


async def attach(connection: ClientConnection, count: int, each: int = 1) -> list[Any]:
    senders = []
    for _ in range(0, count, each):
        pairs = [channel() for _ in range(each)]
        receivers: list[Receiver] = [receiver for _, receiver in pairs]
        await connection.entrypoint.send(b"", attach=receivers)
        senders += [sender for sender, _ in pairs]
    return senders


def test_channels_attachments_and_headers_are_limited_and_counted(site: Site) -> None:
    """The greedy connection is closed with RESOURCE_LIMIT, and nobody else notices."""

    async def main(intake: IntakeProcess) -> None:
        good = await connect(intake.url, tls=site.client_tls)

        async def greedy() -> ClientConnection:
            return await connect(intake.url, tls=site.client_tls, config=GREEDY)

        many = await greedy()
        kept = await attach(many, 18)  # with the entrypoint 19
        await many.entrypoint.flush()
        assert many.closed is None
        kept += await attach(many, 4)
        await closed_for(many, Code.RESOURCE_LIMIT)
        assert await counted(intake, "over_limits", 1) == 1

        wide = await greedy()
        kept += await attach(wide, 4, each=4)
        await wide.entrypoint.flush()
        assert wide.closed is None
        kept += await attach(wide, 5, each=5)
        await closed_for(wide, Code.RESOURCE_LIMIT)
        assert await counted(intake, "over_limits", 2) == 2

        for headers in (((b"k", bytes(3000)),), tuple((b"k", b"v") for _ in range(700))):
            bomb = await greedy()
            await bomb.entrypoint.send(b"fine", headers=((b"k", bytes(1500)),))
            await bomb.entrypoint.flush()
            await bomb.entrypoint.send(b"", headers=headers)
            await closed_for(bomb, Code.RESOURCE_LIMIT)
        assert await counted(intake, "over_limits", 4) == 4

        with pytest.raises((ProtocolViolation, ConnectFailed)):
            await connect(
                intake.url, tls=site.client_tls, config=GREEDY, headers=((b"k", bytes(3000)),)
            )
        assert await counted(intake, "over_limits", 5) == 5
        await works(good, "good")
        assert (await status(intake))["connections"] == 1
        await good.close()
        del kept

    limits = AqueductLimits(channels=20, attachments=4, header_bytes=2000)
    with site.intake(limits=limits) as intake:
        run(main(intake))


def test_a_message_over_the_limit_closes_its_connection_only(site: Site) -> None:
    async def main(intake: IntakeProcess) -> None:
        good = await connect(intake.url, tls=site.client_tls)
        large = await connect(intake.url, tls=site.client_tls)
        await large.entrypoint.send(bytes(10_000))
        await large.entrypoint.flush()
        await large.entrypoint.send(bytes(10_001))
        with pytest.raises(ConnectionLost):
            await large.entrypoint.flush()
        await closed_for(large, Code.RESOURCE_LIMIT)
        await works(good, "good")
        await good.close()
        assert (await status(intake))["over_limits"] == 1

    with site.intake(max_message_bytes=10_000) as intake:
        run(main(intake))


def test_who_does_not_complete_its_handshake_is_let_go(site: Site) -> None:
    """TLS is complete, but the connection headers never come: a slow one of many."""

    async def main(intake: IntakeProcess) -> None:
        host, port = intake.listen.rsplit(":", 1)
        mute = []
        for _ in range(4):
            probe = Probe(client=True)
            driver = await dial(
                host,
                int(port),
                alpn=ALPN,
                settings=LinkSettings(),
                tls=site.client_tls,
                make_engine=lambda now, probe=probe: probe,  # type: ignore[misc]
                on_events=lambda driver, events: None,
            )
            mute.append((driver, probe))
        async with connect(intake.url, tls=site.client_tls) as good:
            async with asyncio.timeout(LONG):
                for driver, _ in mute:
                    await driver.wait_closed()
            assert all(probe.lost and probe.lost.code == Code.HEADERS for _, probe in mute)
            await works(good, "good")
        assert (await status(intake))["violations"] == 4

    with site.intake(limits=AqueductLimits(handshake_timeout=3.0)) as intake:
        run(main(intake))


def test_a_peer_that_falls_silent_breaks_no_rule() -> None:
    """As each producer that was killed, or whose host lost its network."""
    assert fault_of_peer(Closed(Code.PROTOCOL, "", False, CloseOrigin.IDLE_TIMEOUT)) is None
    assert fault_of_peer(Closed(Code.RESOURCE_LIMIT, "", False, CloseOrigin.TRANSPORT)) is None
    assert fault_of_peer(Closed(Code.RESOURCE_LIMIT, "", False)) is Fault.OVER_LIMITS
    assert fault_of_peer(Closed(Code.PROTOCOL, "an unknown frame", False)) is Fault.VIOLATION
    assert fault_of_peer(Closed(Code.PROTOCOL, "an unknown frame", True)) is None


def garbage(chance: random.Random) -> bytes:
    """Random bytes, half of them with the first byte and version of a QUIC long header, the
    others like packets of a connection that is not there."""
    size = chance.choice([1, 7, 30, 200, 1200, 1400])
    data = bytearray(chance.randbytes(size))
    kind = chance.random()
    if kind < 0.5 and size > 6:
        data[0] = 0xC0 | data[0] & 0x3F
        data[1:5] = b"\0\0\0\1"
        data[5] = 8
    elif kind < 0.8:
        data[0] = 0x40 | data[0] & 0x3F
    return bytes(data)


def test_fault_30_good_traffic_goes_on_exactly_through_a_flood_of_garbage(site: Site) -> None:
    async def main(intake: IntakeProcess) -> None:
        host, port = intake.listen.rsplit(":", 1)
        stop = asyncio.Event()
        sent = 0

        async def flood() -> None:
            nonlocal sent
            chance = random.Random(30)
            burst = [garbage(chance) for _ in range(500)]
            sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
            try:
                while not stop.is_set():
                    for index, data in enumerate(chance.sample(burst, 100)):
                        sockets[index % 4].sendto(data, (host, int(port)))
                    sent += 100
                    await asyncio.sleep(0)
            finally:
                for sock in sockets:
                    sock.close()

        flooding = asyncio.ensure_future(flood())
        try:
            async with Producer(
                intake.url, producer="p", tls=site.client_tls, first_wait=0.02
            ) as producing:
                good = [producing.channel(f"c{number}") for number in range(3)]
                for number in range(1500):
                    await good[number % 3].send(b"%d" % number)
                for each in good:
                    await each.finish()
                assert producing.statistics.acked == 1500
            # a new one gets in as well
            async with connect(intake.url, tls=site.client_tls) as connection:
                await works(connection, "late")
        finally:
            stop.set()
            await flooding
        found = await status(intake)
        assert sent > 1000
        assert found["garbage_packets"] > 500
        assert found["violations"] == found["over_limits"] == 0

    with site.intake() as intake:
        before = resident_bytes(intake.pid)
        run(main(intake))
        assert resident_bytes(intake.pid) - before < 100_000_000
        for number in range(3):
            rows = [row for row in intake.rows() if row["channel"] == f"c{number}"]
            assert [row["messageNum"] for row in rows] == list(range(500))
            assert [int(row["value"]) for row in rows] == list(range(number, 1500, 3))


def test_channels_are_given_back(site: Site) -> None:
    """A limit holds at once, not over the life of a connection."""

    async def main(intake: IntakeProcess) -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            for number in range(24):
                await works(connection, f"c{number}")
            await eventually(lambda: connection.closed is None)
            assert (await status(intake))["over_limits"] == 0

    with site.intake(limits=AqueductLimits(channels=8)) as intake:
        run(main(intake))
