"""Refused connections, however many, are few events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aqueduct_core.intake.storage.event_log import LoggedEvent
from aqueduct_core.intake.storage.event_summaries import MAX_REJECTED, PERIOD, Rejections
from aqueduct_core.intake.storage.pending import PendingEvent
from tests.core.intake.bench import bench
from tests.core.intake.storage.test_group_commit import NOW, Peer

STRANGER = PendingEvent(Peer(), LoggedEvent("rejected", NOW, "1-1-1", reason="no such token"))
KNOWN = PendingEvent(Peer(), LoggedEvent("rejected", NOW, "1-1-2", "p", reason="other content"))


class Clock:
    """Periods that end when they are told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []
        self.notified = 0

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        self.calls.append((seconds, call))

    def notify(self) -> None:
        self.notified += 1

    def end_period(self) -> None:
        ((seconds, call),) = self.calls
        assert seconds == PERIOD
        self.calls.clear()
        call()


def test_a_flood_of_strangers_is_a_bounded_number_of_events_a_period() -> None:
    clock = Clock()
    rejections = Rejections(clock.later, clock.notify)
    for period in range(3):
        assert sum(rejections.single(STRANGER) for _ in range(10_000)) == MAX_REJECTED
        assert (rejections.ready, clock.notified) == (False, period)
        clock.end_period()
        assert clock.notified == period + 1
        (summary,) = rejections.take()
        left_out = 10_000 - MAX_REJECTED
        expected = f"{left_out} more were refused, the last one: no such token"
        assert summary.event.reason == expected
        assert not rejections.ready


def test_a_few_are_told_one_by_one_and_nothing_more() -> None:
    clock = Clock()
    rejections = Rejections(clock.later, clock.notify)
    for _ in range(3):
        assert all(rejections.single(STRANGER) for _ in range(MAX_REJECTED))
        clock.end_period()
        assert not rejections.ready
    assert clock.notified == 0


def test_strangers_do_not_hide_what_a_known_producer_is_refused_for() -> None:
    clock = Clock()
    rejections = Rejections(clock.later, clock.notify)
    for _ in range(1_000):
        rejections.single(STRANGER)
    assert all(rejections.single(KNOWN) for _ in range(MAX_REJECTED))
    assert not rejections.single(KNOWN)
    clock.end_period()
    assert [each.event.producer for each in rejections.take()] == [None, "p"]


def test_groups_of_a_flood_over_many_groups_store_few_rows(tmp_path: Path) -> None:
    """Each group used to have 64 of its own, fifty times a second."""
    with bench(tmp_path) as b:
        for _ in range(50):
            for _ in range(100):
                b.groups.record(STRANGER)
            b.groups.flush()
            b.pump()
        assert len(b.events()) == MAX_REJECTED
        b.settle()  # the period is over
        b.settle()
        assert len(b.events()) == MAX_REJECTED + 1
        assert b.events()[-1]["reason"].startswith(f"{5_000 - MAX_REJECTED} more were refused")


def test_at_the_end_what_was_left_out_is_told(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(MAX_REJECTED + 1):
            b.groups.record(STRANGER)
        b.groups.stop()
        b.pump()
        assert len(b.events()) == MAX_REJECTED + 1
