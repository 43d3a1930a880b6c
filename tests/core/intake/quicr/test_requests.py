"""Which media one endpoint is asked for: of which objects, and below which prefix."""

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


def test_what_finished_before_is_asked_for_again_for_other_objects_alone() -> None:
    first = requests("a")
    first.take(0.0)
    first.recorded("a")
    known: dict[str, str | None] = dict(first.finished_requests)
    assert requests("a", finished=known).settled
    assert requests("a", finished={"a": None}).settled
    other = requests("a", finished=known, start=3)
    assert other.take(0.0) == ["a"]


@pytest.mark.parametrize("bounded", [False, True])
def test_a_media_with_an_object_that_is_too_large_fails_and_is_asked_for_rarely(
    bounded: bool,
) -> None:
    """Each time everything before it comes again; a read that ends does not wait for another one.
    Neither what came before it, nor another connection, brings it forward."""
    each = requests("a", bounded=bounded)
    now, waits = 0.0, []
    for attempt in range(1, 12):
        assert each.take(now) == ["a"]
        each.received("a")
        each.too_large("a", "object (0, 1) has more", now)
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
    each.recorded("a")  # another one is under its URL
    assert (list(each.failed), each.settled) == ([], True)


def test_a_prefix_is_never_settled_and_has_so_many_media(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_URLS", 3)
    each = requests(subscribe_prefix="p\\xff")
    assert (each.prefix, each.requested, each.settled) == (b"p\xff", 1, False)
    for number in (1, 2, 2, 3, 4, 5):
        each.add(f"p\\xff{number}")
    assert each.take(0.0) == ["p\\xff1", "p\\xff2", "p\\xff3"]
    assert not each.settled
    [failure] = each.failed
    assert (failure.channel, failure.end) == ("p\\xff4", "refused")
    for number in (1, 2, 3):
        each.recorded(f"p\\xff{number}")
    assert not each.settled
