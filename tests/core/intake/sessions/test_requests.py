"""What one endpoint is asked for, and what becomes of it."""

from __future__ import annotations

from typing import Any

from aqueduct_core.intake.sessions.requests import EndpointRequests
from aqueduct_core.intake.settings.dial import ConnectSettings


def requests(*names: str, finished: dict[str, str | None] | None = None, **given: Any) -> Any:
    connect = ConnectSettings(("there:1",), first_wait=1.0, longest_wait=1.0, **given)
    return EndpointRequests(connect, names, finished or {})


def test_each_is_asked_for_until_it_has_finished() -> None:
    each = requests("a", "b", "a")
    assert (each.requested, each.open, each.settled, each.next_at) == (2, 0, False, 0.0)
    assert each.take(0.0) == ["a", "b"]
    assert (each.take(9.0), each.open, each.next_at) == ([], 2, None)
    each.recorded("a")
    each.lost(5.0)
    assert (each.open, each.finished, each.next_at) == (0, 1, 5.0)
    assert each.take(5.0) == ["b"]
    each.recorded("b")
    assert each.settled
    assert sorted(each.finished_requests) == ["a", "b"]
    assert each.failures == 0


def test_what_finished_before_is_not_asked_for_again() -> None:
    first = requests("a")
    first.take(0.0)
    first.recorded("a")
    assert requests("a", finished=dict(first.finished_requests)).settled
    assert requests("a", finished={"a": None}).settled
    assert not requests("a", finished={"a": "another"}).settled
    assert not requests("a", finished={"b": None}).settled


def test_what_is_cancelled_is_asked_for_again_later_by_a_stream() -> None:
    each = requests("a")
    each.take(0.0)
    each.cancelled("a", 10.0, "gone")
    assert 10.0 < each.next_at <= 12.0
    assert each.take(10.0) == []
    assert each.take(each.next_at) == ["a"]
    each.received("a")
    assert not each.failed


def test_a_read_that_ends_says_what_it_has_not_whole() -> None:
    each = requests("a", "b", bounded=True)
    each.take(0.0)
    each.cancelled("a", 1.0, "gone")
    each.recorded("b")
    assert each.settled
    assert [(f.channel, f.end, f.reason) for f in each.failed] == [("a", "cancelled", "gone")]
    assert each.finished < each.requested


def test_the_end_that_becomes_durable_behind_the_connection_counts() -> None:
    each = requests("a")
    each.take(0.0)
    each.lost(1.0)
    each.recorded("a")
    assert each.settled
    assert each.take(9.0) == []
    each.cancelled("a", 9.0, "gone")
    assert each.settled
