"""Rows of the fault matrix at the intake side of Telehash, beside those of processes
(`test_adapter`) and of kills in any order (`test_commit_kills`)."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from aqueduct_core.engine.inputs import Datagram
from aqueduct_core.primitives.host_port import HostPort
from aqueduct_core.telehash.events import CloseReason
from aqueduct_core.telehash.faults import PacketFault
from tests.core.intake.lives import run
from tests.core.intake.telehash.peers import dialling
from tests.core.intake.telehash.scene import LineScene, line_bench, mark, settings
from tests.core.intake.telehash.site import listening, stored
from tests.support.intake_process import Site
from tests.support.rules import rule

BODIES = [b"%d" % n for n in range(30)]
MARKS = [mark(row) for row in range(30)]


def test_fault_04_a_commit_that_was_not_told_is_told_by_the_next_driver(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings(ack_level="committed"))
        channel = scene.open(BODIES)
        scene.run(4.0)  # the commit log has them; the driver died before it said so
        assert scene.acks == []
        scene.commit()
        scene.run(0.5)
        assert scene.acked(channel) == 30


def test_fault_15_a_slow_query_keeps_no_more_than_the_windows_waiting(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, settings(ack_level="committed", window=8))
        channels = [scene.open([bytes(1_000)], kind=f"_{n}") for n in range(10)]
        for _ in range(40):
            for channel in channels:
                if channel not in scene.peer.closed:
                    scene.send(channel, [bytes(1_000)] * min(1, scene.peer.engine.room(channel)))
            scene.run(0.2)
            assert scene.session.memory < 10 * (8 * 1_200 + 3_000)
            assert all(each.unacked <= 8 for each in scene.session._channels)
        assert b.groups.counters.rows == 80


@rule("T-5")
@pytest.mark.parametrize("seed", range(3))
def test_fault_22_loss_reordering_and_repeats_change_nothing(seed: int, tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b, loss=0.2, jitter=0.1, duplicate=0.2, seed=seed)
        channels = [scene.open(BODIES, kind=f"_{n}", end=True) for n in range(3)]
        scene.run(40.0)
        for n, channel in enumerate(channels):
            rows = [row for row in b.rows() if row["type"] == f"_{n}"]
            assert [row["value"] for row in rows] == BODIES
            assert [row["seq"] for row in rows] == [*range(30)]
            assert scene.peer.closed[channel].reason is CloseReason.ENDED


def test_fault_23_a_blackout_shorter_than_the_timeout_only_delays(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        channel = scene.open(BODIES[:10])
        scene.run(0.5)
        scene.link.loss = 1.0
        scene.send(channel, BODIES[10:])
        scene.run(5.0)
        scene.link.loss = 0.0
        scene.run(5.0)
        assert b.values() == BODIES
        assert scene.acked(channel) == 30


def test_fault_23_behind_a_longer_one_marked_rows_come_again_and_are_known(tmp_path: Path) -> None:
    with line_bench(tmp_path) as b:
        scene = LineScene(b)
        channel = scene.open(BODIES, js=MARKS)
        scene.link.run_for(0.015)  # they are here, their acks are not there
        scene.link.loss = 1.0
        scene.run(15.0)
        assert scene.peer.closed[channel].reason is CloseReason.TIMED_OUT
        scene.link.loss = 0.0
        again = scene.open(BODIES, js=MARKS, end=True)
        scene.run(2.0)
        assert scene.peer.closed[again].reason is CloseReason.ENDED
        assert b.values() == BODIES
        assert b.groups.counters.deduped == 30


@rule("P-3")
def test_fault_24_over_plain_udp_another_address_is_another_line(tmp_path: Path) -> None:
    site = Site(tmp_path)

    async def main() -> None:
        async with (
            listening(site, carrier="udp") as intake,
            dialling(intake.listen, None) as before,
        ):
            channel = await before.open(BODIES[:20], js=MARKS[:20], end=False)
            await before.delivered(channel, 20)
            async with dialling(intake.listen, None) as after:  # from another port
                again = await after.open(BODIES, js=MARKS)
                await after.until(lambda: again in after.closed)
            rows, _ = await stored(intake)
            assert sorted(row["value"] for row in rows) == sorted(BODIES)
            assert len({(row["peer"], row["channel_epoch"]) for row in rows}) == 2

    run(main())


HEADS = (
    b"",
    b"\xff\xfe",
    b'{"c":1,',
    b"[" * 20_000,
    b'{"c":1,"c":3}',
    b'{"c":"text"}',
    b'{"c":0}',
    b'{"c":2,"type":"_parity"}',
    b'{"c":1,"type":"_again","seq":0}',
    b'{"c":1,"ack":9,"miss":["a"]}',
    b'{"c":1,"seq":-1}',
    b'{"c":1,"seq":true}',
    b'{"c":1,"seq":4294967296}',
    b'{"c":9,"seq":5,"type":"_late"}',
)
HOSTILE = [
    b"",
    b"\0",
    b"\xff\xff{}",
    *(len(head).to_bytes(2, "big") + head + b"body" for head in HEADS),
]


def test_fault_28_bad_packets_cost_themselves_alone(tmp_path: Path) -> None:
    """None of them reaches the session, which goes on, and so do other lines."""
    with line_bench(tmp_path) as b:
        scene, other = LineScene(b), LineScene(b)
        channel, good = scene.open(BODIES[:10]), other.open(BODIES[:10])
        scene.run(0.5)
        other.run(0.5)
        draw = random.Random(7)
        for _ in range(2_000):
            scene.ours.handle(Datagram(draw.choice(HOSTILE)), scene.link.now)
        scene.session._driver.kick()  # type: ignore[union-attr]
        scene.link.kick()
        scene.run(0.5)
        assert sum(scene.ours.counts.values()) >= 1_900
        assert {PacketFault.NOT_JSON, PacketFault.WRONG_PARITY} <= {*scene.ours.counts}
        for line, number in ((scene, channel), (other, good)):
            line.send(number, BODIES[10:], end=True)
            line.run(1.0)
            assert line.peer.closed[number].reason is CloseReason.ENDED
        assert sorted(b.values()) == sorted(BODIES * 2)
        assert scene.kinds().count("opened") == 2
        assert scene.session.memory < 10_000


@pytest.mark.parametrize("carrier", ["quic", "udp"])
def test_fault_30_garbage_on_the_port_keeps_nobody_from_storing(
    carrier: str, tmp_path: Path
) -> None:
    site, draw = Site(tmp_path), random.Random(3)

    def garbage(where: HostPort) -> None:
        with ExitStack() as stack:
            for _ in range(50):
                each = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                each.connect(where)
                for _ in range(40):
                    each.send(draw.randbytes(draw.randrange(1, 1_200)))

    async def main() -> None:
        tls = site.client_tls if carrier == "quic" else None
        async with (
            listening(site, carrier=carrier) as intake,
            dialling(intake.listen, tls) as peer,
        ):
            channel = await peer.open(BODIES[:10], end=False)
            garbage(HostPort.parse(intake.listen))
            await peer.send(channel, BODIES[10:])
            await peer.until(lambda: channel in peer.closed)
            rows, events = await stored(intake)
            assert [row["value"] for row in rows] == BODIES
            assert [each["kind"] for each in events] == ["connected", "opened", "finished"]

    run(main())
