"""One producer that floods does not starve the others.

What is promised is counted in what happens, not in seconds: a message that arrived is durable with
the group that was open then, whatever others send. Before it, in the network and the kernel, it
waits for no more than what a flooding connection may have under way: one connection window.
"""

from __future__ import annotations

import asyncio
import subprocess
from itertools import pairwise
from pathlib import Path

from aqueduct_core.aio.connect import connect
from aqueduct_core.aio.halves import channel
from aqueduct_core.aqueduct.conventions.headers import channel_headers
from aqueduct_core.aqueduct.engine import Mode
from aqueduct_core.transport.settings import LinkSettings
from tests.core.cli.running import AQUEDUCT
from tests.core.intake.bench import bench
from tests.core.intake.scene import Scene
from tests.support.intake_process import IntakeProcess, Site
from tests.support.waiting import LONG, environment

GROUP = 100_000


def test_a_slow_producer_is_durable_with_the_next_group_beside_a_flood(tmp_path: Path) -> None:
    with bench(tmp_path, group_bytes=GROUP) as b:
        flood, slow = Scene(b), Scene(b)
        (wide,) = flood.attach(channel_headers(name="flood"))
        (thin,) = slow.attach(channel_headers(name="slow"))
        slow.step()
        sent = 0
        for number in range(60):
            for _ in range(40):
                if flood.client.can_send(wide):
                    flood.send(wide, bytes(5_000))
                    sent += 1
            slow.send(thin, b"%d" % number)
            # all that the flood brings, then the slow one, then one group to the disk
            flood.step()
            groups = b.groups.counters.groups
            slow.step()
            assert b.groups.counters.groups <= groups + 1
            slow.rest(0.1)
            assert slow.delivered(thin, True) == list(range(number + 1))
        assert b.groups.counters.bytes > 60 * GROUP
        assert sent * 5_000 > 60 * GROUP


def test_a_flood_on_one_channel_does_not_hold_up_another_of_its_connection(tmp_path: Path) -> None:
    with bench(tmp_path, group_bytes=GROUP) as b:
        scene = Scene(b)
        wide, thin = scene.attach(channel_headers(name="flood"), channel_headers(name="slow"))
        scene.rest(0.2)
        for number in range(40):
            for _ in range(20):
                scene.send(wide, bytes(5_000), mode=Mode.UNORDERED)
            scene.send(thin, b"%d" % number)
            scene.rest(0.15)
            assert scene.delivered(thin, True) == list(range(number + 1))


def test_beside_a_real_flood_a_slow_producer_waits_for_one_window_at_most(tmp_path: Path) -> None:
    size, lines, beats = 1_000, 20_000, 12
    file = tmp_path / "flood.txt"
    file.write_bytes((b"x" * size + b"\n") * lines)
    site = Site(tmp_path)
    ca = tmp_path / "ca.pem"
    assert site.client_tls.ca_pem is not None
    ca.write_bytes(site.client_tls.ca_pem)

    async def beat(intake: IntakeProcess) -> None:
        async with connect(intake.url, tls=site.client_tls) as connection:
            sender, receiver = channel(name="slow")
            await connection.entrypoint.send(b"", attach=receiver)
            for number in range(beats):
                await sender.send(b"%d" % number)
                await sender.flush()
            await sender.finish()

    with site.intake(partitions=1) as intake:
        flooding = subprocess.Popen(
            [*AQUEDUCT, "send", intake.url, "--ca", str(ca), "--channel", "flood", str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        try:
            while intake.status().counters["rows"] < 1_000:
                assert flooding.poll() is None
            asyncio.run(asyncio.wait_for(beat(intake), LONG))
            assert flooding.wait(LONG) == 0
        finally:
            flooding.kill()
            flooding.wait()
        rows = [row["channel"] for row in intake.rows()]
    places = [place for place, name in enumerate(rows) if name == "slow"]
    assert len(places) == beats
    assert rows.count("flood") == lines
    between = [after - before for before, after in pairwise(places)]
    assert max(between) * size <= LinkSettings().connection_window
