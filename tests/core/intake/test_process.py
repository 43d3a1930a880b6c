"""The life of an intake as a process: how it starts, what disturbs it, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.aio.producer import Producer
from aqueduct_core.errors import (
    ConnectFailed,
    InvalidOption,
    SpoolFailed,
)
from aqueduct_core.intake.__main__ import main
from aqueduct_core.intake.control import status_file
from aqueduct_core.intake.process import MAX_DESCRIPTORS
from aqueduct_core.intake.settings.intake import TlsSettings
from tests.core.intake.lives import run, send_some, values
from tests.support.intake_process import Site
from tests.support.waiting import LONG, SOON, alive, ended, wait_until


def with_few_descriptors() -> int:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    return main()


def test_it_may_have_more_descriptors_than_it_was_started_with(site: Site) -> None:
    with site.intake(with_few_descriptors) as intake:
        soft, hard = resource.prlimit(intake.pid, resource.RLIMIT_NOFILE)
    assert soft == (
        MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    )


def test_it_ends_in_good_order_when_nobody_renews_the_lease(site: Site) -> None:
    with site.intake(lease=5.0) as intake:
        with intake.client() as client:
            for _ in range(3):
                assert client.wait([0, 0], 2.0).lease == 5.0
        assert intake.wait(LONG) == 0
    left = status_file.read(site.spool)
    assert left is not None
    assert left["state"] == "ended"
    assert "no planner" in left["reason"]


def test_fault_2_sigterm_makes_the_last_group_durable_and_acks_it(site: Site) -> None:
    async def scenario(url: str) -> int:
        async with connect(url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="last")
            await connection.entrypoint.send(b"", attach=receiver)
            await sender.send_many([b"%d" % number for number in range(100)])
            while intake.status().counters["rows"] < 101:
                await asyncio.sleep(0.01)
            intake.signal(signal.SIGHUP)
            intake.signal(signal.SIGTERM)
            await connection.wait_closed()
            closed = connection.closed
            assert closed is not None
            assert (closed.code, closed.by_peer) == (0, True)
            return sender.statistics.acked

    with site.intake(group_commit=0.5) as intake:
        syncer = _children(intake.pid)
        assert run(scenario(intake.url)) == 100
        assert intake.wait() == 0
        for pid in syncer:
            ended(pid, LONG)
    with site.intake() as intake:
        assert len(values(intake.rows(), "last")) == 100


def test_fault_2_sigterm_under_load_ends_soon_and_loses_nothing(site: Site) -> None:
    """FAULTS 2, with a producer that never pauses: what is not acked comes again."""

    async def scenario() -> tuple[int, list[dict[str, Any]]]:
        with site.intake() as intake:
            listen = intake.listen
            async with Producer(
                intake.url, producer="p", tls=site.client_tls, first_wait=0.02, longest_wait=0.2
            ) as producer:
                readings = producer.channel("readings")
                pump = asyncio.create_task(send_always(readings))
                while readings.statistics.acked < 2000:
                    await asyncio.sleep(0.01)
                begun = time.monotonic()
                assert await asyncio.to_thread(intake.terminate) == 0
                assert time.monotonic() - begun < SOON
                with site.intake(listen=listen) as again:
                    before = readings.statistics.acked
                    while readings.statistics.acked < before + 2000:
                        await asyncio.sleep(0.01)
                    pump.cancel()
                    await asyncio.wait([pump])
                    await readings.finish()
                    await producer.close()
                    return readings.statistics.sent, await asyncio.to_thread(again.rows)

    async def send_always(readings: Any) -> None:
        sent = 0
        while True:
            await readings.send(b"%d" % sent)
            sent += 1
            if sent % 100 == 0:
                await asyncio.sleep(0.001)

    sent, rows = run(scenario())
    assert values(rows, "readings") == [b"%d" % number for number in range(sent)]


def test_a_client_can_ask_it_to_end(site: Site) -> None:
    with site.intake() as intake:
        with intake.client() as client:
            client.drain()
        assert intake.wait() == 0


def test_it_lets_go_of_the_pipes_of_its_launcher(site: Site) -> None:
    with site.intake() as intake:
        files = [f"/proc/{intake.pid}/fd/{number}" for number in (0, 1)]
        wait_until(lambda: {os.readlink(file) for file in files} == {os.devnull}, LONG, "it")
        status = status_file.read(site.spool)
        assert status is not None
        assert status["pid"] == intake.pid
        assert status["state"] == "ready"
        assert status["listen"] == intake.listen
        assert json.dumps(status).find(site.credentials.token) == -1


def test_fault_32_a_second_intake_of_the_same_spool_is_refused(site: Site) -> None:
    with site.intake() as first:
        with pytest.raises(SpoolFailed, match=r"SPOOL\.LOCKED"), site.intake():
            pass
        assert first.status().epoch == 1
        run(send_some(first.url, site, "still", 5))


def test_a_port_in_use_is_one_clear_error(site: Site) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with (
            pytest.raises(ConnectFailed, match=rf"CONNECT\.REFUSED.*{port}"),
            site.intake(listen=f"127.0.0.1:{port}"),
        ):
            pass
    lines = [line for line in site.log.read_text().splitlines() if "AQUEDUCT_" in line]
    assert len(lines) == 1
    with site.intake():  # the spool was not left locked
        pass


@pytest.mark.parametrize(
    "tls", [TlsSettings(), TlsSettings("/nowhere/cert.pem", "/nowhere/key.pem")]
)
def test_a_missing_certificate_is_one_clear_error(site: Site, tls: TlsSettings) -> None:
    with pytest.raises(InvalidOption, match="certificate"), site.intake(tls=tls):
        pass
    assert not site.spool.exists()


def test_fault_30_garbage_on_the_port_disturbs_nobody(site: Site) -> None:
    with site.intake() as intake:
        host, port = intake.listen.rsplit(":", 1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as noise:
            for size in (0, 1, 20, 1200, 1400):
                for _ in range(50):
                    noise.sendto(os.urandom(size), (host, int(port)))
        run(send_some(intake.url, site, "x", 10))
        assert len(values(intake.rows(), "x")) == 10
        assert alive(intake.pid)


def _children(pid: int) -> list[int]:
    def probe() -> list[int]:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(child) for child in text.split()]

    return wait_until(probe, LONG, "a syncer process")
