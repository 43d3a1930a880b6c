"""Deadlines by key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aqueduct_core.primitives.timers import DelayQueue, Timers


def test_the_earliest_comes_first() -> None:
    timers: Timers[str] = Timers()
    assert timers.next is None
    timers.set("a", 3.0)
    timers.set("b", 1.0)
    timers.sooner("a", 2.0)
    timers.sooner("b", 5.0)
    assert timers.next == 1.0
    assert timers.pop(0.5) is None
    assert timers.pop(2.0) == "b"
    assert timers.pop(2.0) == "a"
    assert timers.pop(9.0) is None


def test_of_equal_deadlines_the_first_that_was_set_comes_first() -> None:
    timers: Timers[str] = Timers()
    for key in "bca":
        timers.set(key, 1.0)
    assert [timers.pop(1.0) for _ in range(4)] == ["b", "c", "a", None]


def test_a_later_deadline_replaces() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 1.0)
    timers.set("a", 4.0)
    assert timers.pop(3.0) is None
    assert timers.next == 4.0
    timers.cancel("a")
    timers.cancel("a")
    assert timers.next is None
    assert "a" not in timers
    timers.set("a", 1.0)
    timers.clear()
    assert timers.next is None


def test_stale_entries_are_swept() -> None:
    timers: Timers[str] = Timers()
    for i in range(10_000):
        timers.set("a", float(10_000 - i))
    assert len(timers._heap) < 200
    assert timers.pop(1.0) == "a"


def test_stale_entries_are_no_more_than_the_live_ones_and_a_few() -> None:
    timers: Timers[int] = Timers()
    for when in range(5, 0, -1):
        for key in range(1_000):
            timers.set(key, when)
            assert len(timers._heap) <= 2 * 1_000 + 64


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20), st.booleans()), max_size=60))
def test_against_a_dict(operations: list[tuple[int, int, bool]]) -> None:
    timers: Timers[int] = Timers()
    model: dict[int, float] = {}
    for key, when, cancel in operations:
        if cancel:
            timers.cancel(key)
            model.pop(key, None)
        else:
            timers.set(key, float(when))
            model[key] = float(when)
        assert timers.next == min(model.values(), default=None)
    order = []
    while (key_out := timers.pop(100.0)) is not None:
        order.append(model[key_out])
    assert order == sorted(model.values())


def test_cancelled_deadlines_do_not_pile_up() -> None:
    timers: Timers[int] = Timers()
    for key in range(1000):
        timers.set(key, key)
    for key in range(999):
        timers.cancel(999 - key)
    assert len(timers._heap) < 100
    assert timers.next == 0


def test_what_comes_first_is_due_first_and_once() -> None:
    queue: DelayQueue[str] = DelayQueue(0.02)
    assert queue.next is None
    queue.add("a", 1.0)
    queue.add("b", 1.01)
    queue.add("a", 1.015)
    assert queue.next == 1.02
    assert queue.take(1.0199) == []
    assert queue.take(1.02) == ["a"]
    assert queue.next == 1.03
    queue.add("a", 1.025)
    assert queue.take(2.0) == ["b", "a"]
    assert not queue


def test_what_is_cancelled_is_due_no_more() -> None:
    queue: DelayQueue[str] = DelayQueue(0.5)
    for key in "abc":
        queue.add(key, 1.0)
    queue.cancel("a")
    queue.cancel("a")
    assert queue.take(1.5) == ["b", "c"]
    queue.add("c", 2.0)
    queue.clear()
    assert queue.next is None


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 1)), max_size=60))
def test_everything_added_is_due_no_sooner_than_its_delay_and_no_later(
    steps: list[tuple[int, float]],
) -> None:
    """Against a table of deadlines; time goes on by each step."""
    queue: DelayQueue[int] = DelayQueue(0.25)
    model: dict[int, float] = {}
    now = 0.0
    for key, passed in steps:
        now += passed
        due = [each for each, when in model.items() if when <= now]
        assert sorted(queue.take(now)) == sorted(due)
        model = {each: when for each, when in model.items() if when > now}
        queue.add(key, now)
        model.setdefault(key, now + 0.25)
        assert queue.next == min(model.values())
