from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from aqueduct_core.intake.aqueduct.rows import ROWS
from aqueduct_core.intake.storage.group_commit import GroupCommit
from aqueduct_core.intake.storage.linger import (
    BULK_BYTES,
    FIRST_COST,
    LEAST_DELAY,
    MOST,
    SPARE,
    EarlyEnd,
    Linger,
)
from tests.core.intake.bench import Bench, Peer, bench
from tests.core.intake.storage.test_group_commit import offer

WHOLE = 0.02


class Loop:
    """Timers and both clocks, by hand."""

    def __init__(self) -> None:
        self.now = 100.0
        self.used = 3.0
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, call))

    def run(self, seconds: float) -> None:
        """Let time pass in which there is nothing to do but what is due."""
        end = self.now + seconds
        while due := sorted((each for each in self.timers if each[0] <= end), key=lambda e: e[0]):
            self.timers.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][1]()
        self.now = end

    def work(self, seconds: float) -> None:
        """Let time pass in which the process is busy; nothing that is due comes meanwhile."""
        self.now += seconds
        self.used += seconds


def test_the_first_group_may_end_at_once() -> None:
    assert Linger().delay(100.0, 3.0) == 0


@pytest.mark.parametrize(
    ("idle", "busy", "delay"),
    [
        (0.0, 0.0, max(LEAST_DELAY, SPARE * FIRST_COST)),
        (
            0.0,
            1.0,
            max(LEAST_DELAY, SPARE * FIRST_COST),
        ),  # no time was left over
        (SPARE * FIRST_COST / 4, 0.0, max(LEAST_DELAY, SPARE * FIRST_COST * 3 / 4)),
        (SPARE * FIRST_COST * 0.99, 0.5, LEAST_DELAY),
        (SPARE * FIRST_COST * 1.01, 0.0, 0.0),
        (SPARE * FIRST_COST * 1.01, 1.0, 0.0),
    ],
)
def test_a_group_stays_open_until_enough_time_was_left_over(
    idle: float, busy: float, delay: float
) -> None:
    linger = Linger()
    linger.ended(100.0, 3.0, FIRST_COST)
    assert linger.delay(100.0 + idle + busy, 3.0 + busy) == pytest.approx(delay, abs=1e-6)


def test_what_groups_cost_decides_and_one_that_stumbles_does_not() -> None:
    linger = Linger()
    for _ in range(50):
        linger.ended(100.0, 3.0, 1e-3)
    assert linger.delay(100.0, 3.0) == pytest.approx(SPARE * 1e-3, rel=0.01)
    linger.ended(100.0, 3.0, 60.0)
    assert linger.delay(100.0, 3.0) < SPARE * MOST


def test_looks_while_more_comes_and_ends_the_group_when_nothing_does() -> None:
    loop, ended = Loop(), []
    early = EarlyEnd(
        loop.later, lambda: loop.now, lambda: loop.used, lambda: True, lambda: ended.append(1)
    )
    early.note()
    for _ in range(3):  # each look finds that more has come since the one before
        assert len(loop.timers) == 1
        loop.timers.pop()[1]()
        early.note()
        assert not ended
    loop.timers.pop()[1]()
    assert not ended
    loop.timers.pop()[1]()
    assert ended == [1]
    assert not loop.timers


def test_does_not_look_while_there_is_a_reason_to_wait() -> None:
    loop, ready = Loop(), False
    early = EarlyEnd(
        loop.later,
        lambda: loop.now,
        lambda: loop.used,
        lambda: ready,
        lambda: pytest.fail("it ended"),
    )
    early.note()
    early.look_soon()
    assert not loop.timers
    ready = True
    early.look_soon()
    ready = False
    loop.run(1)  # it became unready before the look
    assert not loop.timers


def groups_of(b: Bench, loop: Loop) -> GroupCommit:
    groups = GroupCommit(
        b.spool,
        ROWS,
        [0] * b.spool.partitions,
        group_bytes=1 << 20,
        group_seconds=WHOLE,
        later=loop.later,
        failed=b.failures.append,
        clocks=(lambda: loop.now, lambda: loop.used),
    )
    b.spool.on_durable = groups.made_durable
    return groups


def test_a_message_that_comes_alone_is_written_at_once(tmp_path: Path) -> None:
    peer, loop = Peer(), Loop()
    with bench(tmp_path) as b:
        groups = groups_of(b, loop)
        groups.add(offer(peer, [b"a"]))
        loop.run(0)
        b.pump()
        assert b.values() == [b"a"]
        assert len(peer.acked) == 1


def test_behind_a_group_on_its_way_one_waits_until_that_is_durable(tmp_path: Path) -> None:
    peer, loop = Peer(), Loop()
    with bench(tmp_path) as b:
        groups = groups_of(b, loop)
        groups.add(offer(peer, [b"a"]))
        loop.run(0)
        groups.add(offer(peer, [b"b"], first=1))
        loop.run(WHOLE / 2)
        assert groups.counters.groups == 1
        b.pump()
        loop.run(WHOLE / 4)
        assert groups.counters.groups == 2
        b.pump()
        assert b.values() == [b"a", b"b"]


def test_a_busy_process_keeps_its_groups_open_for_their_whole_time(tmp_path: Path) -> None:
    peer, loop = Peer(), Loop()
    with bench(tmp_path) as b:
        groups = groups_of(b, loop)
        groups.add(offer(peer, [b"0"]))
        loop.run(0)
        b.pump()
        begun = loop.now
        groups.add(offer(peer, [b"1"], first=1))
        number = 2
        while groups.counters.groups == 1:
            loop.work(0.001)
            loop.run(0)
            groups.add(offer(peer, [b"%d" % number], first=number))
            number += 1
        assert loop.now - begun == pytest.approx(WHOLE, abs=0.002)


def test_a_group_of_a_steady_stream_stays_open_for_its_whole_time(tmp_path: Path) -> None:
    peer, loop = Peer(), Loop()
    with bench(tmp_path) as b:
        groups = groups_of(b, loop)
        groups.add(offer(peer, [b"x" * (BULK_BYTES + 1)]))
        loop.run(WHOLE * 0.9)
        assert groups.counters.groups == 0
        loop.run(WHOLE * 0.2)
        assert groups.counters.groups == 1


def test_no_look_is_left_behind_when_a_group_ended_otherwise(tmp_path: Path) -> None:
    peer, loop = Peer(), Loop()
    with bench(tmp_path) as b:
        groups = groups_of(b, loop)
        groups.add(offer(peer, [b"a"]))
        groups.flush()
        loop.run(1)
        b.pump()
        loop.run(1)
        assert groups.counters.groups == 1
        assert not loop.timers
