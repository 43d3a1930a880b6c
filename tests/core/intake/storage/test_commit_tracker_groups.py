"""What a group commit notes for receipts: new messages, repeats, and what was held back."""

from __future__ import annotations

from pathlib import Path

from aqueduct_core.intake.aqueduct.rows import AqueductSource
from aqueduct_core.intake.storage.commit_tracker import (
    CommittedRanges,
    CommitTracker,
    CommitTrackers,
    Key,
)
from aqueduct_core.intake.storage.pending import PendingBatch
from tests.core.intake.bench import Bench, Peer, bench
from tests.core.intake.runs import run

NOW = 1_800_000_000_000_000
SOURCE = AqueductSource("c", "p", "cafe", 8, 10)


class Asking:
    """A connection that wants receipts, or does not yet."""

    def __init__(self, b: Bench) -> None:
        self.tracker: CommitTracker | None = None
        self._commits = CommitTrackers(b.spool.partitions - 1, b.spool.cursors())

    def ask(self, b: Bench) -> None:
        self.tracker = CommitTracker(lambda: None)
        self._commits.join(self.tracker)
        b.groups.recall(self.tracker, "p")

    def commit(self, ends: list[int]) -> list[CommittedRanges]:
        self._commits.move({"query": ends})
        return [] if self.tracker is None else self.tracker.take(1_000)


def offer(b: Bench, asking: Asking, first: int, count: int, size: int = 1) -> None:
    messages = run([bytes(size)] * count, channel=8, first=first)
    b.groups.add(PendingBatch(Peer(), messages, SOURCE, True, NOW, asking))


def committed(*ranges: tuple[int, int]) -> list[CommittedRanges]:
    return [CommittedRanges(Key("c", True), ranges)] if ranges else []


def test_a_repeat_is_committed_with_the_end_that_it_found(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asking = Asking(b)
        asking.ask(b)
        offer(b, asking, 0, 3)
        b.settle()
        offer(b, asking, 3, 2)
        b.settle()
        offer(b, asking, 0, 4)  # a group of repeats alone
        b.settle()
        assert asking.commit([2]) == committed()
        assert asking.commit([3]) == committed((10, 13))
        assert asking.commit([4]) == committed()
        assert asking.commit([5]) == committed((10, 15))  # what is told again does no harm
        assert b.values() == [b"\0"] * 5


def test_what_is_in_the_open_group_when_receipts_are_asked_for_is_noted(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asking = Asking(b)
        offer(b, asking, 0, 3)
        asking.ask(b)
        offer(b, asking, 3, 1)
        b.settle()
        assert asking.commit([3]) == committed((10, 13))
        assert asking.commit([4]) == committed((13, 14))


def test_what_was_held_back_when_receipts_were_asked_for_is_noted(tmp_path: Path) -> None:
    with bench(tmp_path, max_bytes=64_000) as b:
        asking = Asking(b)
        offer(b, asking, 0, 1, 70_000)
        b.settle()
        offer(b, asking, 1, 2)
        assert b.groups.holding
        asking.ask(b)
        assert asking.commit([1]) == committed((10, 11))
        b.pass_all()
        while b.spool.full:
            b.spool.trim()
        b.settle()
        b.settle()
        assert b.groups.held_bytes == 0
        assert asking.commit([3]) == committed((11, 13))


def test_after_a_restart_all_that_is_marked_is_noted_and_holes_are_not(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asking = Asking(b)
        offer(b, asking, 0, 3)
        offer(b, asking, 7, 2)
        b.settle()
    with bench(tmp_path) as b:
        asking = Asking(b)
        asking.ask(b)
        assert asking.commit([4]) == committed()
        assert asking.commit([5]) == committed((10, 13), (17, 19))
