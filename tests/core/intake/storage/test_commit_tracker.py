"""What is committed: pure state against a model that remembers everything."""

from __future__ import annotations

import random

import pytest

from aqueduct_core.intake.storage import commit_tracker
from aqueduct_core.intake.storage.commit_tracker import CommitTracker, CommitTrackers, Key
from aqueduct_core.primitives.ranges import RangeSet

READINGS = Key("readings", True)


MOST = 1_000


class Told:
    """A producer: all that it has heard so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.tracker = CommitTracker(self._fresh)
        self.numbers: dict[Key, RangeSet] = {}

    def _fresh(self) -> None:
        self.calls += 1

    def read(self) -> dict[Key, RangeSet]:
        while taken := self.tracker.take(MOST):
            for key, ranges in taken:
                known = self.numbers.setdefault(key, RangeSet())
                for first, stop in ranges:
                    assert known.add(first, stop) == [(first, stop)], "told twice"
        return self.numbers


def test_a_message_is_committed_when_the_slowest_cursor_has_passed_its_group() -> None:
    told, commits = Told(), CommitTrackers(2, {})
    commits.join(told.tracker)
    told.tracker.note(READINGS, [(0, 10)], {0: 10})
    told.tracker.note(READINGS, [(10, 20)], {0: 25})
    told.tracker.note(Key("load", False, 16), [(3, 4)], {1: 1})
    commits.move({"a": [10, 1], "b": [9, 1]})
    assert told.read() == {Key("load", False, 16): RangeSet([(3, 4)])}
    commits.move({"a": [25, 1], "b": [24, 1], "of events": [None, None]})
    assert told.read()[READINGS] == RangeSet([(0, 10)])
    commits.move({"a": [25, 1]})  # the slow one was dropped
    assert told.read()[READINGS] == RangeSet([(0, 20)])
    assert told.calls == 3


def test_without_a_cursor_nothing_is_committed_and_nothing_is_taken_back() -> None:
    told, commits = Told(), CommitTrackers(1, {})
    commits.join(told.tracker)
    told.tracker.note(READINGS, [(0, 5)], {0: 5})
    commits.move({})
    commits.move({"of events": [None]})
    assert told.read() == {}
    commits.move({"a": [5]})
    commits.move({"a": [5], "new": [0]})
    assert commits.positions == [5]
    assert told.read() == {READINGS: RangeSet([(0, 5)])}


def test_what_was_committed_before_is_told_at_once() -> None:
    told, commits = Told(), CommitTrackers(1, {"a": [7]})
    commits.join(told.tracker)
    told.tracker.note(READINGS, [(0, 3), (5, 9)], {0: 7})
    assert told.calls == 1
    assert told.read() == {READINGS: RangeSet([(0, 3), (5, 9)])}
    commits.leave(told.tracker)
    told.tracker.note(READINGS, [(9, 10)], {0: 8})
    commits.move({"a": [8]})
    assert told.read()[READINGS].stop == 9


@pytest.mark.parametrize("seed", range(30))
def test_receipts_are_never_early_and_all_come(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(commit_tracker, "MAX_STEPS", chance.choice([2, 5, 64]))
    told, commits = Told(), CommitTrackers(3, {})
    commits.join(told.tracker)
    keys = [Key(name, True) for name in "abc"] + [Key("u", False, 24)]
    ends = [0, 0, 0]
    truth: list[tuple[Key, list[int], int, int]] = []
    numbers = {key: list(range(2000)) for key in keys}
    for values in numbers.values():  # unordered: in any order, within a window
        for at in range(0, 2000, 20):
            window = values[at : at + 20]
            chance.shuffle(window)
            values[at : at + 20] = window
    for _ in range(400):
        partition = chance.randrange(3)
        key = keys[partition] if chance.random() < 0.8 else keys[3]
        partition = 0 if key is keys[3] else partition
        count = chance.randrange(1, 6)
        taken, numbers[key] = numbers[key][:count], numbers[key][count:]
        ends[partition] += len(taken) + chance.randrange(3)
        ranges = [(number, number + 1) for number in sorted(taken)]
        told.tracker.note(key, ranges, {partition: ends[partition]})
        truth.append((key, taken, partition, ends[partition]))
        if chance.random() < 0.1:
            commits.move({"q": [chance.randrange(end + 1) for end in ends]})
            for known, ranges_ in told.read().items():
                allowed = {
                    number
                    for owner, given, where, upto in truth
                    if owner == known and upto <= commits.positions[where]
                    for number in given
                }
                assert all(n in allowed for a, b in ranges_ for n in range(a, b))
    commits.move({"q": ends})
    for key in keys:
        everything = {number for owner, given, _, _ in truth if owner == key for number in given}
        heard = told.read().get(key, RangeSet())
        assert {n for a, b in heard for n in range(a, b)} == everything
    assert told.tracker.forgotten == 0
    assert told.tracker._size == 0


def test_a_query_that_is_far_behind_costs_a_bounded_amount_and_gets_even_steps() -> None:
    told, commits = Told(), CommitTrackers(1, {"a": [0]})
    commits.join(told.tracker)
    for number in range(10_000):
        told.tracker.note(READINGS, [(number, number + 1)], {0: number + 1})
    (track,) = told.tracker._tracks.values()
    assert len(track.steps) <= commit_tracker.MAX_STEPS
    seen = []
    for position in range(0, 10_001, 100):
        commits.move({"a": [position]})
        seen.append(told.read().get(READINGS, RangeSet()).count)
    assert seen[-1] == 10_000
    assert all(position - count < 600 for position, count in zip(range(0, 10_001, 100), seen))  # noqa: B905
    told.tracker.note(READINGS, [(10_000, 10_001)], {0: 10_001})
    told.tracker.note(READINGS, [(10_001, 10_002)], {0: 10_002})
    assert len(track.steps) <= 2


def test_a_peer_that_leaves_holes_everywhere_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_tracker, "MAX_PENDING_RANGES", 100)
    monkeypatch.setattr(commit_tracker, "MAX_TRACKS", 3)
    told, commits = Told(), CommitTrackers(1, {"a": [0]})
    commits.join(told.tracker)
    for number in range(0, 1000, 2):
        told.tracker.note(READINGS, [(number, number + 1)], {0: 1})
    assert told.tracker.forgotten == 400
    commits.move({"a": [1]})
    assert told.read()[READINGS].count == 100
    for number in range(5):
        told.tracker.note(Key(str(number), True), [(0, 7)], {0: 2})
    assert told.tracker.forgotten == 400 + 14


def test_long_lists_are_told_in_several_messages() -> None:
    told, commits = Told(), CommitTrackers(1, {"a": [1]})
    commits.join(told.tracker)
    told.tracker.note(READINGS, [(n, n + 1) for n in range(0, 5000, 2)], {0: 1})
    first = told.tracker.take(MOST)
    assert sum(len(entry.ranges) for entry in first) == 1000
    assert told.read()[READINGS].count == 1500


def test_what_may_lie_on_any_partition_is_committed_when_all_are() -> None:
    told = Told()
    told.tracker.note(READINGS, [(0, 3)], {0: 5, 1: 2, 2: 0})
    told.tracker.note(READINGS, [(3, 4)], {1: 3})
    for positions in ([5, 1], [4, 3]):
        told.tracker.advance(positions)
        assert told.read() == {}
    told.tracker.advance([5, 3])
    assert told.read() == {READINGS: RangeSet([(0, 4)])}
    told.tracker.note(READINGS, [(9, 10)], {0: 5, 1: 3})
    assert told.read() == {READINGS: RangeSet([(0, 4), (9, 10)])}
