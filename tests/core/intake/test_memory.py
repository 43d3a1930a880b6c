"""An intake within ``limits.memory``: hostile producers hold what they can, a good one goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.producer import Producer
from aqueduct_core.aqueduct.config import ALPN
from aqueduct_core.aqueduct.wire import codec
from aqueduct_core.engine.close_codes import CloseOrigin
from aqueduct_core.engine.inputs import Input, LinkReady
from aqueduct_core.engine.message_batch import Attachment, MessageBatch
from aqueduct_core.intake.aqueduct.config import engine_config
from aqueduct_core.intake.aqueduct.limits import AqueductLimits
from aqueduct_core.intake.aqueduct.settings import AqueductIntake
from aqueduct_core.intake.sessions.listen import listen_limits
from aqueduct_core.transport.dialer import dial
from aqueduct_core.transport.driver import Driver
from aqueduct_core.transport.settings import LEAST_WINDOW, LinkSettings, ListenLimits
from tests.core.intake.lives import run
from tests.core.intake.test_limits import counted, status, works
from tests.core.transport.probe import Probe
from tests.support.intake_process import IntakeProcess, Site
from tests.support.processes import resident_bytes
from tests.support.waiting import LONG
from tests.support.wire import Wire

MIB = 1 << 20
MEMORY = 16 * MIB
MESSAGE = 12 * MIB


class Hostile(Probe):
    """A client that says who it is, and then what it likes."""

    def handle(self, fact: Input, now: float) -> None:
        super().handle(fact, now)
        if isinstance(fact, LinkReady):
            self.sequence(codec.encode_connection_headers(()), end=True)

    def sequence(self, frames: bytes, *, end: bool = False) -> int:
        number = self.open()
        self.write(number, codec.VERSION + frames, end=end)
        return number


async def hostile(intake: IntakeProcess, site: Site) -> tuple[Driver, Hostile]:
    host, port = intake.listen.rsplit(":", 1)
    probe = Hostile(client=True)
    driver = await dial(
        host,
        int(port),
        alpn=ALPN,
        settings=LinkSettings(),
        tls=site.client_tls,
        make_engine=lambda now: probe,
        on_events=lambda driver, events: None,
    )
    return driver, probe


def half_a_message(probe: Hostile) -> None:
    """All of it but the last byte, so that it is never whole."""
    head = codec.encode_route_to(0) + codec.message_head(probe.opened[False], (), (), MESSAGE)
    probe.sequence(head + bytes(MESSAGE - 1))


def attachments(probe: Hostile) -> None:
    """Channels without end, nothing on them, each with a header."""
    number = probe.sequence(codec.encode_route_to(0))
    header = ((b"note", bytes(200)),)
    for message in range(24):
        attached = tuple(Attachment(8 * (1 + message * 250 + each), header) for each in range(250))
        probe.write(number, codec.encode_message(message, (), attached, b""), end=False)


@pytest.mark.parametrize("attack", [half_a_message, attachments])
def test_those_that_hold_most_are_closed_and_a_good_producer_goes_on(
    site: Site, attack: Callable[[Hostile], None]
) -> None:
    async def main(intake: IntakeProcess) -> None:
        async with connect(intake.url, tls=site.client_tls) as early:
            await works(early, "early")
        before = resident_bytes(intake.pid)
        async with Producer(intake.url, producer="p", tls=site.client_tls) as producing:
            good = producing.channel("good")
            await good.send(b"first")
            ends = [await hostile(intake, site) for _ in range(3)]
            for driver, probe in ends:
                attack(probe)
                driver.kick()
            for number in range(300):
                await good.send(b"%d" % number)
            assert await counted(intake, "connections_evicted", 1) >= 1
            async with asyncio.timeout(LONG):
                while not any(probe.lost for _, probe in ends):
                    await asyncio.sleep(0.01)
            lost = next(probe.lost for _, probe in ends if probe.lost)
            assert lost.origin is CloseOrigin.TRANSPORT
            assert lost.reason.startswith("[AQUEDUCT_CONNECT.NO_MEMORY] ")
            assert (await status(intake))["connections_memory"] <= MEMORY
            await good.finish()
            assert producing.statistics.acked == 301
            for driver, _ in ends:
                driver.close()
            for driver, _ in ends:
                await driver.wait_closed()
            async with connect(intake.url, tls=site.client_tls) as late:
                await works(late, "late")
        found = await status(intake)
        assert found["violations"] == found["over_limits"] == 0
        assert resident_bytes(intake.pid) - before < 3 * MEMORY

    with site.intake(limits=AqueductLimits(memory=MEMORY)) as intake:
        run(main(intake))
        rows = [row for row in intake.rows() if row["channel"] == "good"]
        assert [row["messageNum"] for row in rows] == list(range(301))


@pytest.mark.parametrize("memory", [8 * MIB, 64 * MIB, 512 * MIB])
def test_windows_and_what_waits_are_parts_of_the_memory(site: Site, memory: int) -> None:
    settings = AqueductIntake(
        "/s", site.credentials, listen="127.0.0.1:0", limits=AqueductLimits(memory=memory)
    )
    limits = listen_limits(settings)
    assert limits.memory == memory
    assert limits.shared_window is not None
    assert limits.outgoing is not None
    assert limits.connection_share == ListenLimits().connection_share
    assert LEAST_WINDOW <= limits.shared_window <= limits.memory // 4
    assert LEAST_WINDOW <= limits.outgoing <= limits.memory // 4


def test_a_channel_that_carries_nothing_costs_no_stream(site: Site) -> None:
    settings = AqueductIntake("/s", site.credentials, listen="127.0.0.1:0")
    wire = Wire.server(replace(engine_config(settings), auto_accept=True))
    opened = {line.split(":")[0] for line in wire.sent()}
    wire.stream("03000400000608001000180000")  # a message that brings the channels 8, 16 and 24
    assert len(wire.events(MessageBatch)) == 1
    assert all(wire.engine.half_open(number) for number in (8, 16, 24))
    assert {line.split(":")[0] for line in wire.sent()} == opened
