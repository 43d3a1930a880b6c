"""Queries, drivers, lines and the intake are killed again and again, at any moment: no ack is ever
above the commit logs of all queries, nothing is lost, and nothing is a row twice."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from aqueduct_core.errors import AqueductError
from aqueduct_core.intake.storage.commit_tracker import CommitTrackers
from aqueduct_core.intake.telehash.rows import ROWS
from aqueduct_core.spool import InlineSync, Spool, SpoolSettings
from aqueduct_core.telehash.wire.channel_packets import ChannelPacket
from tests.core.intake.bench import Bench
from tests.core.intake.telehash.scene import LineScene, mark, settings
from tests.support.rules import rule

PARTITIONS = 3


class Query:
    """A stream whose driver may be killed between any two steps: ``log`` is its commit log, which
    stays; what it has planned it plans again to the same end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.log = [0] * PARTITIONS
        self.read: list[bytes] = []
        self._offsets: list[int] | None = None
        self._alive = True

    def step(self, world: World) -> None:
        """The next one of: plan, read and commit, tell the intake."""
        if not self._alive:
            self._alive = True  # a new driver begins with what its logs say
        elif self._offsets is None:
            self._offsets = world.spool.ends()[:-1]
        elif self._offsets != self.log:
            for partition, (first, stop) in enumerate(zip(self.log, self._offsets, strict=True)):
                self.read += [row["value"] for row in world.rows(partition, first, stop)]
            self.log = self._offsets
        else:
            world.spool.commit(self.name, [*self.log, None])
            world.moved()
            self._offsets = None

    def kill(self) -> None:
        """The offset log and the commit log are on the disk, whatever was told to intakes."""
        self._alive = False


class Sender:
    """Sends marked packets on one channel at a time, and again what was not acked when it ends."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent = 0
        self.acked = 0
        self.line: LineScene
        self._channel: int | None = None
        self._base = 0
        """Of the first packet of the channel."""

    def dial(self, world: World) -> None:
        self.line = LineScene(
            world.bench, world.settings, commits=world.commits, leaves=self.look(world)
        )
        self._channel = None

    def look(self, world: World) -> Any:
        def leaves(packet: ChannelPacket) -> None:
            if packet.ack is not None and packet.channel == self._channel:
                world.check(self.name, self._base + packet.ack)

        return leaves

    def step(self, world: World, *, more: bool) -> None:
        line = self.line
        if self._channel is not None:
            self.acked = max(self.acked, self._base + line.acked(self._channel))
            if self._channel in line.peer.closed:
                self._channel = None
        engine = line.peer.engine
        if self._channel is None:
            self._base = next_one = self.acked
            if next_one < self.sent or more:
                body, js = self.packet(next_one)
                self._channel = line.open([body], js=[js])
                self.sent = max(self.sent, next_one + 1)
                self._at = next_one + 1
        if self._channel is not None:
            most = self.sent + (world.random.randrange(12) if more else 0)
            count = min(engine.room(self._channel), max(0, most - self._at))
            packets = [self.packet(self._at + n) for n in range(count)]
            line.send(self._channel, [b for b, _ in packets], js=[js for _, js in packets])
            self._at += count
            self.sent = max(self.sent, self._at)
        line.run(world.random.choice((0.05, 0.1, 0.3)), settle=world.random.random() < 0.8)

    def packet(self, number: int) -> tuple[bytes, dict[str, Any]]:
        batch, row = divmod(number, 10)
        return f"{self.name}:{number}".encode(), mark(row, query=self.name, batch=batch)


class World:
    """One spool, and those around it."""

    def __init__(self, directory: Path, seed: int, ack_level: str = "committed") -> None:
        self.settings = settings(ack_level=ack_level)
        self.random = random.Random(seed)
        self.directory = directory
        self.queries = [Query("one"), Query("other")]
        self.senders = [Sender("a"), Sender("b"), Sender("c")]
        self.places: dict[bytes, tuple[int, int]] = {}
        self.acks = 0
        self._known = [0] * PARTITIONS
        self.begin()

    def begin(self) -> None:
        """A life of the intake."""
        self.spool = Spool.open(
            self.directory,
            schema=ROWS.schema,
            partitions=PARTITIONS + 1,
            settings=SpoolSettings(owed_partitions=PARTITIONS),
            sync=InlineSync,
        )
        self.bench = Bench(self.spool, rows=ROWS)
        for query in self.queries:
            if query.name not in self.spool.cursors():
                self.spool.commit(query.name, [*query.log, None])
        self.commits = CommitTrackers(PARTITIONS, self.spool.cursors())
        for sender in self.senders:
            sender.dial(self)

    def moved(self) -> None:
        self.commits.move(self.spool.cursors())

    def rows(self, partition: int, first: int, stop: int) -> list[dict[str, Any]]:
        found = []
        for batch in self.spool.read(partition, first, stop):
            found += ROWS.expand(batch, partition, first, False, False).to_pylist()
        return found

    def check(self, sender: str, last: int) -> None:
        """An ack leaves: that packet, and all before it, are below the commit logs of all."""
        self.acks += 1
        for partition in range(PARTITIONS):
            end = self.spool.ends()[partition]
            for at, row in enumerate(self.rows(partition, self._known[partition], end)):
                assert row["value"] not in self.places, "a row twice"
                self.places[row["value"]] = partition, self._known[partition] + at
            self._known[partition] = end
        for number in range(last, max(-1, last - 200), -1):
            place = self.places.get(f"{sender}:{number}".encode())
            assert place is not None
            partition, offset = place
            assert all(offset < query.log[partition] for query in self.queries)

    def kill(self) -> None:
        match self.random.randrange(4):
            case 0:
                self.random.choice(self.queries).kill()
            case 1:
                sender = self.random.choice(self.senders)
                sender.line.link.lose("gone")
                sender.line.run(0.05)
                sender.dial(self)
            case _:
                self.spool.abandon("killed")
                with suppress(AqueductError):
                    self.spool.close()
                self.begin()

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step(more=True)

    def step(self, *, more: bool) -> None:
        for sender in self.senders:
            sender.step(self, more=more)
        for query in self.queries:
            for _ in range(self.random.randrange(3)):
                query.step(self)


@rule("T-6", "T-9")
@pytest.mark.parametrize(("seed", "kills"), [(1, 40), pytest.param(2, 200, marks=pytest.mark.long)])
def test_no_ack_is_above_the_commit_logs_whatever_is_killed(
    seed: int, kills: int, tmp_path: Path
) -> None:
    world = World(tmp_path, seed)
    for _ in range(kills):
        world.steps(world.random.randrange(1, 6))
        world.kill()
    for _ in range(400):
        world.step(more=False)
        if all(sender.acked == sender.sent for sender in world.senders):
            break
    sent = {f"{s.name}:{n}".encode() for s in world.senders for n in range(s.sent)}
    assert all(sender.acked == sender.sent > 50 for sender in world.senders)
    assert world.acks > 20
    ends = world.spool.ends()
    values = [row["value"] for p in range(PARTITIONS) for row in world.rows(p, 0, ends[p])]
    assert sorted(values) == sorted(sent)
    for query in world.queries:
        assert len(query.read) == len({*query.read})
        assert {*query.read} == sent
    world.spool.close()


def test_the_check_finds_an_ack_that_is_too_high(tmp_path: Path) -> None:
    world = World(tmp_path, 1, "stored")
    with pytest.raises(AssertionError):
        world.steps(200)
    world.spool.abandon("the test is over")
    with suppress(AqueductError):
        world.spool.close()
