"""What one endpoint is asked for, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from aqueduct_core.flight.subscription_status import Failure
from aqueduct_core.intake.quicr import requests as module
from aqueduct_core.intake.quicr.media import MediaIntake
from aqueduct_core.intake.quicr.requests import MediaRequests
from aqueduct_core.intake.quicr.settings import QuicrConnect


def requests(
    *urls: str, finished: dict[str, str | None] | None = None, start: int = 0, **given: Any
) -> MediaRequests:
    connect = QuicrConnect(("origin:1",), urls=urls, first_wait=1.0, longest_wait=1.0, **given)
    return MediaRequests(connect, MediaIntake(start_group=start), finished or {})


def test_each_url_is_asked_for_until_it_has_finished() -> None:
    each = requests("a", "b")
    assert (each.requested, each.open, each.settled, each.next_at) == (2, 0, False, 0.0)
    assert [request.url for request in each.take(0.0)] == [b"a", b"b"]
    assert (each.take(9.0), each.open, each.next_at) == ([], 2, None)
    each.recorded(b"a")
    each.lost(5.0)
    assert (each.open, each.finished, each.next_at) == (0, 1, 5.0)
    assert [request.url for request in each.take(5.0)] == [b"b"]
    each.recorded(b"b")
    assert each.settled
    assert sorted(each.finished_requests) == ["a", "b"]
    assert each.failures == 0


def test_what_finished_before_is_not_asked_for_again_unless_for_other_objects() -> None:
    first = requests("a")
    first.take(0.0)
    first.recorded(b"a")
    known: dict[str, str | None] = dict(first.finished_requests)
    assert requests("a", finished=known).settled
    assert requests("a", finished={"a": None}).settled
    other = requests("a", finished=known, start=3)
    assert [request.url for request in other.take(0.0)] == [b"a"]


def test_what_is_cancelled_is_asked_for_again_later_by_a_stream() -> None:
    each = requests("a")
    each.take(0.0)
    each.cancelled(b"a", 10.0)
    assert each.next_at is not None
    assert 10.0 < each.next_at <= 12.0
    assert each.take(10.0) == []
    assert [request.url for request in each.take(each.next_at)] == [b"a"]
    each.received(b"a")
    assert not each.failed


def test_a_read_that_ends_says_what_it_has_not_whole() -> None:
    each = requests("a", "b", bounded=True)
    each.take(0.0)
    each.cancelled(b"a", 1.0)
    each.recorded(b"b")
    assert each.settled
    assert [(failure.channel, failure.end) for failure in each.failed] == [("a", "cancelled")]
    assert each.finished < each.requested


@pytest.mark.parametrize("bounded", [False, True])
def test_a_media_with_an_object_that_is_too_large_fails_and_is_asked_for_rarely(
    bounded: bool,
) -> None:
    """Each time everything before it comes again; a read that ends does not wait for another one.
    Neither what came before it, nor another connection, brings it forward."""
    each = requests("a", bounded=bounded)
    now, waits = 0.0, []
    for attempt in range(1, 12):
        assert [request.url for request in each.take(now)] == [b"a"]
        each.received(b"a")
        each.too_large(b"a", "object (0, 1) has more", now)
        each.lost(now)
        assert list(each.failed) == [Failure("a", "too large", "object (0, 1) has more")]
        assert (each.failures, each.open, each.settled) == (attempt, 0, bounded)
        if bounded:
            assert each.next_at is None
            return
        assert each.next_at is not None
        waits.append(each.next_at - now)
        now = each.next_at
    assert waits[0] >= module.TOO_LARGE_WAIT / 2
    assert waits[-1] >= module.LONGEST_TOO_LARGE_WAIT / 2
    assert max(waits) <= 2 * module.LONGEST_TOO_LARGE_WAIT
    each.take(now)
    each.recorded(b"a")  # another one is under its URL
    assert (list(each.failed), each.settled) == ([], True)


def test_the_end_that_becomes_durable_behind_the_connection_counts() -> None:
    each = requests("a")
    each.take(0.0)
    each.lost(1.0)
    each.recorded(b"a")
    assert each.settled
    assert each.take(9.0) == []
    each.cancelled(b"a", 9.0)
    assert each.settled


def test_a_prefix_is_never_settled_and_has_so_many_media(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_URLS", 3)
    each = requests(subscribe_prefix="p\\xff")
    assert (each.prefix, each.requested, each.settled) == (b"p\xff", 1, False)
    for number in (1, 2, 2, 3, 4, 5):
        each.add(b"p\xff%d" % number)
    assert [request.url[-1:] for request in each.take(0.0)] == [b"1", b"2", b"3"]
    assert not each.settled
    [failure] = each.failed
    assert (failure.channel, failure.end) == ("p\\xff4", "refused")
    for number in (1, 2, 3):
        each.recorded(b"p\xff%d" % number)
    assert not each.settled
